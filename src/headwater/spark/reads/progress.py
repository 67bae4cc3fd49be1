"""A streaming query's progress, committed as that of a consumer group: every lag tool then shows the query.

Spark tells the query's name to tasks only, while only the driver knows what was processed. So one task of the first
batch introduces the query: it leaves the name with a group that the driver knows, and the driver takes it from there.
Law: progress is for people. Spark goes on from its own checkpoint, and no failure here may stop a query.
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


class Progress:
    """The driver's side. `introduction` is where a task shall leave the name of its query, as long as it is unknown."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._group_id = GroupId(options.group_id) if options.group_id else None
        self._meeting = GroupId(f"{options.group_id_prefix}-introduction-{uuid.uuid4().hex}")
        self._was_asked = False
        self._committed: Mapping[TopicPartition, int] = {}

    def introduction(self) -> GroupId | None:
        if self._group_id is not None:
            return None
        self._was_asked = True
        return self._meeting

    def reached(self, cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> None:
        """All records before these offsets are processed."""
        if offsets == self._committed:
            return
        try:
            if self._group_id is None and self._was_asked:
                # Whoever was asked and has not answered will not: the next batch asks again.
                self._was_asked = False
                self._group_id = _take_name(cluster, self._meeting)
            if self._group_id is None:
                return
            GroupAdmin(cluster).commit(
                self._group_id, {partition: CommittedOffset(offset) for partition, offset in offsets.items()}
            )
        except HeadwaterError as error:
            _log.warning("the progress of the query could not be committed as that of a consumer group: %s", error)
        self._committed = dict(offsets)


def introduce(cluster: Cluster, meeting: GroupId, partition: TopicPartition, prefix: str) -> None:
    """A task's side: it leaves the name of the group as a note beside an offset that means nothing."""
    context = TaskContext.get()
    name = None if context is None else _query_name(context)
    if name is None:
        return
    try:
        GroupAdmin(cluster).commit(meeting, {partition: CommittedOffset(0, metadata=f"{prefix}-{name}")})
    except HeadwaterError as error:
        _log.warning("the query could not be introduced, its progress will not be shown: %s", error)


def _take_name(cluster: Cluster, meeting: GroupId) -> GroupId | None:
    groups = GroupAdmin(cluster)
    for committed in groups.committed(meeting).values():
        groups.delete_group(meeting)
        return GroupId(committed.metadata)
    return None


def _query_name(context: TaskContext) -> str | None:
    """The name that the user gave to the query, or its id."""
    # Spark's own description of a micro-batch begins with the name: "name\nid = …".
    description = context.getLocalProperty(_DESCRIPTION) or ""
    name, found, _ = description.partition("\nid = ")
    return name.strip() if found and name.strip() else query_id(context)
