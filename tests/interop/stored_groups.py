"""What Kafka's own kafka-dump-log reads in the files of __consumer_offsets."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.dump_log import DumpLog

# The types of records, as the tool prints them.
OFFSET, CLASSIC_GROUP = "1", "2"
CONSUMER_GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT = "3", "5", "6", "7", "8"
REGEX = "16"
CONSUMER_KINDS = frozenset({CONSUMER_GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT})


class Stored(NamedTuple):
    """`value` is None for a tombstone."""

    kind: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None


class StoredGroups:
    def __init__(self, dump_log: DumpLog, data_directory: Path) -> None:
        dump = dump_log(data_directory.glob("__consumer_offsets-*/*.log"), "--offsets-decoder")
        assert not dump.complaints
        assert {batch["isvalid"] for batch in dump.batches} == {"true"}
        self.records = [_read(record) for record in dump.records]
        # The tool leaves out what it cannot decode.
        assert len(self.records) == sum(int(batch["count"]) for batch in dump.batches)

    @property
    def kinds(self) -> set[str]:
        return {record.kind for record in self.records}

    def of(self, kind: str) -> Sequence[Stored]:
        return [record for record in self.records if record.kind == kind]

    def latest(self, kind: str) -> dict[str, Mapping[str, Any] | None]:
        """The last value of each key, which compaction would keep."""
        return {json.dumps(record.key): record.value for record in self.of(kind)}

    def offsets(self) -> dict[int, int]:
        """By partition, for one topic and group."""
        return {record.key["partition"]: record.value["offset"] for record in self.of(OFFSET) if record.value}


def _read(record: Mapping[str, str]) -> Stored:
    key, payload = json.loads(record["key"]), record["payload"]
    return Stored(key["type"], key["data"], None if payload == "<DELETE>" else json.loads(payload)["data"])
