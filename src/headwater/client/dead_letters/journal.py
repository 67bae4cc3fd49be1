"""The journal of a dead-letter topic: which of its letters were put back.

A log forgets nothing in its middle, so letters that were put back stay in the dead-letter topic. What became of them is
in a topic beside it, `orders.dlq.redriven`. An entry is written in the same transaction as the records that were put
back: a letter is in the journal if and only if its record is in its topic again.

    key    the id of the dead-letter topic and a partition of it: 6f2c62a4-0d5e-4f4e-9d0b-3d1e6a4f8a52/3
    value  offsets of letters: 17-20,25

Entries are only ever added. Those of letters that are gone are removed with DeleteRecords, from the beginning on.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster, TopicDescription
from headwater.client.consumer import ConsumedRecord
from headwater.client.dead_letters.offset_runs import OffsetRuns, runs_of
from headwater.client.dead_letters.scan import scan, span_of
from headwater.client.errors import ClientError, Refused
from headwater.client.offsets import LATEST, list_offsets
from headwater.client.schedule import Place
from headwater.errors import ErrorCode
from headwater.ids import TopicId, TopicName, TopicPartition
from headwater.protocol.batches.records import Record

SUFFIX = ".redriven"

# It must outlive the letters, which have a retention of their own.
_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_KEY = re.compile("([0-9a-f-]{36})/([0-9]{1,10})")
_RUN = re.compile("([0-9]{1,19})(?:-([0-9]{1,19}))?")

Redriven = dict[int, OffsetRuns]


class RedriveJournal:
    def __init__(self, cluster: Cluster, topic: TopicDescription) -> None:
        """`topic` is the dead-letter topic."""
        self.name = TopicName(topic.name + SUFFIX)
        self.partition = TopicPartition(self.name, 0)
        self._cluster = cluster
        self._topic_id = topic.id

    def exists(self) -> bool:
        try:
            return bool(self._cluster.topics([self.name]))
        except Refused as refusal:
            if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            raise

    def create(self) -> None:
        """Create the topic of the journal unless it exists."""
        if self.exists():
            return
        try:
            Admin(self._cluster).create_topic(self.name, partition_count=1, settings=_SETTINGS)
        except Refused as refusal:
            if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def entry(self, places: Iterable[Place]) -> list[Record]:
        """Say that the letters at these places are put back, as a batch for `partition`."""
        by_partition: dict[int, list[int]] = defaultdict(list)
        for partition, offset in places:
            by_partition[partition].append(offset)
        now_ms = self._cluster.clock.now_ms()
        return [
            Record(index, now_ms, key_of(self._topic_id, partition), _written(offsets))
            for index, (partition, offsets) in enumerate(sorted(by_partition.items()))
        ]

    def read(self, *, is_whole: bool = False) -> Redriven:
        """Return the letters that were put back, by partition. With `is_whole`, wait for the end of transactions that
        may hide entries."""
        found: Redriven = {}
        if not self.exists():
            return found
        if is_whole:
            self._wait_for_transactions()
        for record in scan(self._cluster, span_of(self._cluster, self.name)):
            key = self._parsed_key(record)
            if key is not None:
                runs = found.setdefault(key, OffsetRuns())
                for first, last in self._parsed_runs(record):
                    runs.add(first, last)
        return found

    def read_if_allowed(self) -> Redriven | None:
        """None if the user may not read the journal. Nor is it told then whether there is one."""
        try:
            return self.read()
        except Refused as refusal:
            if refusal.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return None
            raise

    def trim(self, starts: Mapping[int, int]) -> None:
        """Drop entries, from the beginning on, whose letters are all gone. `starts` has the first offset that is left
        in each partition of the dead-letter topic."""
        if not self.exists():
            return
        span = span_of(self._cluster, self.name)
        before = {partition: end for partition, (_, end) in span.items()}
        for record in scan(self._cluster, span):
            where = TopicPartition(self.name, record.partition)
            key = self._parsed_key(record)
            is_needed = key is not None and any(last >= starts.get(key, 0) for _, last in self._parsed_runs(record))
            if is_needed:
                before[where] = min(before[where], record.offset)
        before = {partition: offset for partition, offset in before.items() if offset > span[partition][0]}
        if before:
            Admin(self._cluster).delete_records(before)

    def _wait_for_transactions(self) -> None:
        ends = list_offsets(self._cluster, self._partitions(), LATEST)
        backoff = self._cluster.backoff(self._cluster.timeout_ms)
        while any(
            offset < ends[each]
            for each, offset in list_offsets(self._cluster, ends, LATEST, committed_only=True).items()
        ):
            backoff.pause(
                ClientError(
                    f"a transaction in topic '{self.name}' is open: letters are being put back by someone else, such "
                    "as a job of Spark; try again when that is done, or its transaction has timed out"
                )
            )

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, each.index) for each in self._cluster.topic(self.name).partitions]

    def _parsed_key(self, record: ConsumedRecord) -> int | None:
        """The partition of the dead-letter topic; None if the entry is of an earlier topic of the same name."""
        found = _KEY.fullmatch((record.key or b"").decode(errors="replace"))
        if found is None:
            raise self._damaged(record)
        return int(found[2]) if found[1] == str(self._topic_id) else None

    def _parsed_runs(self, record: ConsumedRecord) -> list[tuple[int, int]]:
        runs: list[tuple[int, int]] = []
        for written in (record.value or b"").decode(errors="replace").split(","):
            found = _RUN.fullmatch(written)
            if found is None or int(found[2] or found[1]) < int(found[1]):
                raise self._damaged(record)
            runs.append((int(found[1]), int(found[2] or found[1])))
        return runs

    def _damaged(self, record: ConsumedRecord) -> ClientError:
        return ClientError(
            f"the record at offset {record.offset} of topic '{self.name}' is no entry of a journal: something else "
            "writes to this topic"
        )


def key_of(topic_id: TopicId, partition: int) -> bytes:
    return f"{topic_id}/{partition}".encode()


def _written(offsets: Iterable[int]) -> bytes:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs_of(offsets)).encode()
