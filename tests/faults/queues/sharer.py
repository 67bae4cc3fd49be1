"""A member of a share group: most records it accepts, some it releases, rejects, forgets, or settles too late.

Over the raw client (`raw`), whose fetches acquire within their own time, or as librdkafka's ShareConsumer, which
fetches by itself.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from random import Random
from typing import Any
from uuid import UUID

from confluent_kafka import (  # pyright: ignore[reportPrivateImportUsage]
    AcknowledgeType,
    KafkaException,
    Message,
    ShareConsumer,
)

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.messages.shares.share_fetch import ShareFetchResponse
from tests.faults.histories.clients.fetcher import Address
from tests.faults.histories.clients.options import Options, connection
from tests.faults.histories.recording import Recorder
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import find
from tests.support.kafka.raw_shares import ACCEPT, FINAL, REJECT, RELEASE, Member, acquired

KINDS = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}
LONG_HOLD_S = 0.3
# What becomes of records that are not just accepted; `late` and `hold` take some time.
CHANCES = {"release": 0.2, "reject": 0.04, "forget": 0.02, "late": 0.03, "hold": 0.05}
WAIT_MS = 200
BYTES_MAX = 1 << 26
TTL = "headwater-ttl-ms"

# Partition, offset, delivery count, and when it expires in ms since 1970.
Taken = tuple[int, int, int, int | None]


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    member = (_ConfluentSharer if options.get("is_client") else _RawSharer)(options, recorder, is_told_to_stop)
    while not is_told_to_stop.is_set():
        with suppress(OSError, _Lost):
            member.live()


class _Lost(Exception):
    """The broker does not know the member any more, or cannot answer now."""


class _Sharer:
    def __init__(self, options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
        assert "share_group" in options
        self._options = options
        self._group, self._topic, self._name = options["share_group"], options["topic"], options["name"]
        self._recorder = recorder
        self._stop = is_told_to_stop
        self._random = Random(self._name)
        self._lock_s = options.get("lock_ms", 1000) / 1000
        self._is_calm = options.get("is_calm", False)

    def _choice(self) -> str:
        """What becomes of some records."""
        chance = self._random.random()
        if self._is_calm:
            return "accept"
        for kind, share in CHANCES.items():
            chance -= share
            if chance < 0:
                return kind
        return "accept"

    def _named(self, **fields: Any) -> dict[str, Any]:
        return {"group": self._group, "topic": self._topic, "member": self._name, **fields}


class _RawSharer(_Sharer):
    def live(self) -> None:
        with RawClient(Address(self._options["bootstrap_servers"])) as client:
            find(client, self._group)
            member = Member(client, self._group, self._name)
            member.topic_id = UUID(self._options.get("topic_id", ""))
            if member.beat(self._topic).error_code:
                raise _Lost
            try:
                for _ in range(self._random.randint(10, 60)):
                    if self._stop.is_set():
                        break
                    self._turn(member)
            finally:
                self._recorder.note("depart", **self._named())
            member.acknowledge(epoch=FINAL)

    def _turn(self, member: Member) -> None:
        wall_ms = time.time_ns() // 1_000_000
        invoked = self._recorder.invoke("share", **self._named(is_exact=True, wall_ms=wall_ms, records=[]))
        partitions = range(self._options["topics"][self._topic])
        records_max = self._random.choice([1, 20, 200])
        response = member.ask(wait_ms=WAIT_MS, records_max=records_max, partitions=[*partitions])
        if response.error_code or any(each.error_code for topic in response.responses for each in topic.partitions):
            invoked.fail()
            raise _Lost
        taken = [*_taken(response)]
        invoked.ok(records=taken)
        for partition, group in groupby(taken, lambda each: each[0]):
            for run in _neighbours([*group]):
                self._settle(member, partition, run)
        member.beat()

    def _settle(self, member: Member, partition: int, run: Sequence[Taken]) -> None:
        kind = self._choice()
        match kind:
            case "forget":
                return
            case "late":
                self._stop.wait(self._lock_s + LONG_HOLD_S)
            case "hold":
                self._stop.wait(min(LONG_HOLD_S, self._lock_s / 3))
            case _:
                pass
        kind = kind if kind in KINDS else "accept"
        records = [(partition, offset, count) for _, offset, count, _ in run]
        invoked = self._recorder.invoke("settle", **self._named(verdict=kind, records=records))
        try:
            code = member.settle((run[0][1], run[-1][1], KINDS[kind]), partition=partition)
        except AssertionError:
            # The whole request was refused: the session is not known any more.
            invoked.info()
            raise _Lost from None
        if code == ErrorCode.NONE:
            invoked.ok()
        elif code == ErrorCode.INVALID_RECORD_STATE:
            invoked.fail()
        else:
            invoked.info(error=code)


def _taken(response: ShareFetchResponse) -> Iterator[Taken]:
    acquired(response)
    for topic in response.responses:
        for data in topic.partitions:
            records: dict[int, int | None] = {}
            for header, batch in batches.iterate(data.records or b""):
                for record in batches.read_records(batch, header, BYTES_MAX):
                    ttls = [value for name, value in record.headers if name == TTL and value is not None]
                    records[record.offset] = record.timestamp + int(ttls[0]) if ttls else None
            for each in data.acquired_records:
                for offset in range(each.first_offset, each.last_offset + 1):
                    if offset in records:
                        yield data.partition_index, offset, each.delivery_count, records[offset]


def _neighbours(taken: Sequence[Taken]) -> Iterator[Sequence[Taken]]:
    """Runs of offsets, cut here and there so that they end differently."""
    run: list[Taken] = []
    for each in taken:
        if run and (each[1] != run[-1][1] + 1 or each[2] != run[-1][2] or len(run) == 25):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


class _ConfluentSharer(_Sharer):
    def __init__(self, options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
        super().__init__(options, recorder, is_told_to_stop)
        settings = {key: value for key, value in connection(options).items() if not key.startswith("metadata")}
        settings |= {"group.id": self._group, "share.acknowledgement.mode": "explicit", "max.poll.records": 500}
        self._consumer = ShareConsumer(settings)
        self._consumer.subscribe([self._topic])

    def live(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        finally:
            self._recorder.note("depart", **self._named())
            self._consumer.close()

    def _turn(self) -> None:
        invoked = self._recorder.invoke("share", **self._named(is_exact=False, wall_ms=0, records=[]))
        messages = [each for each in self._consumer.poll(0.2) if each.error() is None]
        invoked.ok(records=[(*_place(each), each.delivery_count(), None) for each in messages])
        if not messages:
            return
        said: dict[str, list[Message]] = {}
        for begin in range(0, len(messages), 25):
            kind = self._choice()
            if kind in ("late", "hold", "forget"):
                kind = "release"
            said.setdefault(kind, []).extend(messages[begin : begin + 25])
        for kind, some in said.items():
            for each in some:
                self._consumer.acknowledge(each, getattr(AcknowledgeType, kind.upper()))
        # All of one partition count, or none does.
        outcomes = {
            kind: self._recorder.invoke(
                "settle",
                **self._named(verdict=kind, records=[(*_place(each), each.delivery_count()) for each in some]),
            )
            for kind, some in said.items()
        }
        try:
            results = self._consumer.commit_sync(30)
            failed = [error for error in results.values() if error is not None]
        except KafkaException as error:
            failed = [error]
        for invocation in outcomes.values():
            if failed:
                # Of several partitions, or of an earlier attempt, some may count.
                invocation.info(error=str(failed[0]))
            else:
                invocation.ok()


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
