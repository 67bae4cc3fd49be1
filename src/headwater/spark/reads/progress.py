"""Commits a streaming query's progress as offsets of a consumer group, so that every lag tool shows the query.

Only tasks learn the query's name from Spark, but only the driver knows what was processed. So one task of the first
batch introduces the query: it commits the name as metadata to a temporary group, the introduction group, from which
the driver reads it. Law: the committed progress is informational. Spark restarts from its own checkpoint, so a failure
here must never stop a query.
"""

import logging
import uuid
from collections.abc import Mapping

from pyspark import TaskContext

from headwater.client.cluster import Cluster
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_offsets import CommittedOffset
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, TopicPartition
from headwater.spark.options.read_options import ReadOptions
from headwater.spark.task import query_id

_DESCRIPTION = "spark.job.description"
_log = logging.getLogger(__name__)


class QueryProgress:
    """The driver's side: learns the name of the consumer group, then commits to it."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._group_id = GroupId(options.group_id) if options.group_id else None
        self._introduction_group = GroupId(f"{options.group_id_prefix}-introduction-{uuid.uuid4().hex}")
        self._is_introduction_pending = False
        self._committed: Mapping[TopicPartition, int] = {}

    def introduction(self) -> GroupId | None:
        """The group in which a task of the next batch must leave the query's name. None once the name is known."""
        if self._group_id is not None:
            return None
        self._is_introduction_pending = True
        return self._introduction_group

    def reached(self, cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit that all records before these offsets are processed."""
        if offsets == self._committed:
            return
        try:
            if self._group_id is None and self._is_introduction_pending:
                # The batch is over. If its task has not introduced the query by now, the next batch asks again.
                self._is_introduction_pending = False
                self._group_id = _take_name(cluster, self._introduction_group)
            if self._group_id is None:
                return
            GroupAdmin(cluster).commit(
                self._group_id, {partition: CommittedOffset(offset) for partition, offset in offsets.items()}
            )
        except HeadwaterError as error:
            _log.warning("the progress of the query could not be committed as that of a consumer group: %s", error)
        self._committed = dict(offsets)


def introduce(cluster: Cluster, introduction_group: GroupId, partition: TopicPartition, prefix: str) -> None:
    """A task's side: leave the name of the query's group as the metadata of a meaningless offset."""
    context = TaskContext.get()
    name = None if context is None else _query_name(context)
    if name is None:
        return
    try:
        GroupAdmin(cluster).commit(introduction_group, {partition: CommittedOffset(0, metadata=f"{prefix}-{name}")})
    except HeadwaterError as error:
        _log.warning("the query could not be introduced, its progress will not be shown: %s", error)


def _take_name(cluster: Cluster, introduction_group: GroupId) -> GroupId | None:
    groups = GroupAdmin(cluster)
    for committed in groups.committed(introduction_group).values():
        try:
            groups.delete_group(introduction_group)
        except HeadwaterError as error:
            # The query may not be allowed to. The group then expires as any other without members.
            _log.info("the group %s is left over: %s", introduction_group, error)
        return GroupId(committed.metadata)
    return None


def _query_name(context: TaskContext) -> str | None:
    """The user's name for the query, or its id."""
    # Spark's own description of a micro-batch begins with the name: "name\nid = …".
    description = context.getLocalProperty(_DESCRIPTION) or ""
    name, found, _ = description.partition("\nid = ")
    return name.strip() if found and name.strip() else query_id(context)
