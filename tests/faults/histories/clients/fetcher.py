"""Reads topics over a plain connection, to see control batches and partition ends, which consumers hide."""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.aborted_record_filter import AbortedRecordFilter
from headwater.protocol.messages.records.fetch import FetchResponse, PartitionData
from tests.faults.histories.clients.options import Options
from tests.faults.histories.recording import Invocation, Recorder
from tests.support.kafka.raw_client import EARLIEST, RawClient, Reachable, fetch_request

VERSION = 12
WAIT_MS = 200
PAUSE_S = 0.05
RECORDS_BYTES_MAX = 1 << 26


class Address(NamedTuple):
    bootstrap_servers: str


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    fetchers = [Fetcher(recorder, options["topics"], committed_only=each) for each in (False, True)]
    while not is_told_to_stop.wait(PAUSE_S):
        try:
            with RawClient(Address(options["bootstrap_servers"])) as client:
                while not is_told_to_stop.wait(PAUSE_S):
                    for fetcher in fetchers:
                        fetcher.fetch(client, wait_ms=WAIT_MS)
        except OSError:
            # The broker was killed, or is slow to come back.
            continue


def read_everything(broker: Reachable, recorder: Recorder, topics: Mapping[str, int]) -> None:
    """Read from the first offset to the last, once with read_uncommitted and once with read_committed."""
    with RawClient(broker) as client:
        for committed_only in (False, True):
            fetcher = Fetcher(recorder, topics, committed_only=committed_only)
            while fetcher.fetch(client):
                pass


class Fetcher:
    def __init__(self, recorder: Recorder, topics: Mapping[str, int], *, committed_only: bool) -> None:
        self._recorder = recorder
        self._positions = {topic: dict.fromkeys(range(count), 0) for topic, count in topics.items()}
        self._committed_only = committed_only

    def fetch(self, client: RawClient, *, wait_ms: int = 0) -> bool:
        """Handle one fetch response; returns whether it made progress."""
        invoked = {
            (topic, partition): self._recorder.invoke(
                "fetch", topic=topic, partition=partition, offset=offset, committed_only=self._committed_only
            )
            for topic, positions in self._positions.items()
            for partition, offset in positions.items()
        }
        request = fetch_request(self._positions, wait_ms=wait_ms, isolation_level=int(self._committed_only))
        answer = client.ask(request, FetchResponse, VERSION)
        has_moved = False
        for topic in answer.responses:
            positions = self._positions[topic.topic]
            for data in topic.partitions:
                position = positions[data.partition_index]
                invocation = invoked[topic.topic, data.partition_index]
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    invocation.fail(error="OFFSET_OUT_OF_RANGE")
                    # Retention has removed the records.
                    start = client.offset(topic.topic, EARLIEST, partition=data.partition_index)
                    positions[data.partition_index] = start
                elif data.error_code:
                    invocation.fail(error=data.error_code)
                else:
                    positions[data.partition_index] = self._tell(invocation, data, position)
                has_moved |= positions[data.partition_index] != position
        return has_moved

    def _tell(self, invocation: Invocation, data: PartitionData, position: int) -> int:
        aborted = AbortedRecordFilter((self._committed_only and data.aborted_transactions) or ())
        found: list[tuple[int, int, int]] = []
        records: list[tuple[int, str]] = []
        next_offset = position
        for header, batch in batches.iterate(data.records or b""):
            batches.verify(batch, header)
            found.append((header.base_offset, header.last_offset, header.record_count))
            next_offset = max(next_offset, header.next_offset)
            if aborted.hides(header, batch) or header.is_control:
                continue
            records += [
                (record.offset, bytes(record.value or b"").decode())
                for record in batches.read_records(batch, header, RECORDS_BYTES_MAX)
                if record.offset >= position
            ]
        invocation.ok(
            high_watermark=data.high_watermark,
            last_stable_offset=data.last_stable_offset,
            log_start_offset=data.log_start_offset,
            batches=found,
            records=records,
        )
        return next_offset
