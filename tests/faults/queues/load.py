"""A load with share groups and delayed records: members are killed and paused, the broker is killed, and at the end the
dead letters are read."""

import signal
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.messages.observability.describe_metrics import DescribeMetricsRequest, DescribeMetricsResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.faults.histories.facts import AUDIT
from tests.faults.histories.load import SETTINGS as GROUP_SETTINGS
from tests.faults.histories.load import Client, Load
from tests.faults.histories.recording import Recorder
from tests.faults.queues.delayer import Watcher
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_shares import configure, offsets_of

LOCK_MS = 1000
LIMIT = 3
SETTINGS = {
    **GROUP_SETTINGS,
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "40",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    # The partitions of a killed member are nobody's until its session is over.
    "group.share.session.timeout.ms": "3000",
    "group.share.heartbeat.interval.ms": "1000",
}
BYTES_MAX = 1 << 26
# A broker under load that has not come to a failpoint by then never will.
DEADLINE_S = 60


class QueueLoad(Load):
    def __init__(self, broker: BrokerProcess, directory: Path, **options: Any) -> None:
        super().__init__(broker, directory, **options)
        self._process = broker
        # The topic of each share group.
        self._share_groups: dict[str, str] = {}
        self._topic_ids: dict[str, str] = {}
        self._delaying: list[str] = []

    def queue(self, name: str, group: str, partitions: int = 2, **config: str) -> str:
        """A topic, and a share group that reads it from its beginning."""
        topic = self.topic(name, partitions, **config)
        with RawClient(self._process) as client:
            self._topic_ids[topic] = str(topic_id(client, topic))
            configure(
                client,
                group,
                share_auto_offset_reset="earliest",
                share_record_lock_duration_ms=str(LOCK_MS),
                share_delivery_count_limit=str(LIMIT),
                headwater_deadletterqueue_enable="true",
                headwater_deadletterqueue_expired_enable="true",
            )
        self._recorder.note("group", group=group, topic=topic, limit=LIMIT, lock_ms=LOCK_MS, has_letters=True)
        self._share_groups[group] = topic
        return topic

    def share(self, group: str, **more: Any) -> Client:
        """Start a member."""
        topic = self._share_groups[group]
        return self.start("sharer", topic, share_group=group, topic_id=self._topic_ids[topic], lock_ms=LOCK_MS, **more)

    def delays(self, name: str, partitions: int = 2) -> str:
        """A topic of delayed records. Its records are no `fetch`: it has gaps where they will appear later."""
        with RawClient(self._process) as client:
            client.create(name, partitions, headwater_delay_enable="true")
        self.topics[name] = partitions
        self._delaying.append(name)
        return name

    def restart(self) -> None:
        restarting = self._recorder.invoke("restart")
        self._process.kill()
        self._process.start()
        restarting.ok()

    def die_at(self, failpoint: str, number: int) -> None:
        """The broker is killed, and its successor kills itself when it reaches the failpoint for the n-th time."""
        restarting = self._recorder.invoke("restart")
        self._process.kill()
        self._process.launch(("tests.faults.kills.failing_broker", failpoint, str(number)))
        code = self._process.wait(DEADLINE_S)
        assert code == -signal.SIGKILL, f"it ended with {code} before it came to {failpoint}:\n{self._process.log}"
        self._process.start()
        restarting.ok()

    def pause_beyond_the_lock(self, client: Client) -> None:
        client.pause()
        time.sleep(1.3 * LOCK_MS / 1000)
        client.resume()

    def wait_until(self, kind: str, count: int) -> None:
        """Wait until so many operations of a kind have succeeded since the beginning."""
        self._wait(lambda: self.progress[kind] >= count, f"{count} of {kind}")

    # -- the end

    def _drain(self) -> None:
        super()._drain()
        for group, topic in self._share_groups.items():
            self._wait(lambda group=group, topic=topic: self._is_done(group, topic), f"the end of {group}")
        self.leave(*(each for each in self.clients if each.options["role"] == "delayer"))
        if self._delaying:
            self._wait(self._has_delivered, "the delivery of all delayed records")

    def _is_done(self, group: str, topic: str) -> bool:
        with RawClient(self._process) as client:
            found = offsets_of(client, group)
            begun = all((topic, partition) in found for partition in range(self.topics[topic]))
            return (
                begun
                and not any(lag for _, lag in found.values())
                and not _gauge(client, "headwater_share_dead_letters_waiting")
            )

    def _has_delivered(self) -> bool:
        with RawClient(self._process) as client:
            return not _gauge(client, "headwater_schedule_pending")

    def _audit(self) -> None:
        delaying = {name: self.topics.pop(name) for name in self._delaying}
        super()._audit()
        recorder = Recorder(self._directory, f"{AUDIT}-queues")
        with RawClient(self._process) as client:
            for topic, partitions in delaying.items():
                watcher = Watcher(recorder, topic, partitions)
                while watcher.look(client):
                    pass
            for group, topic in self._share_groups.items():
                letters = read_letters(client, f"{topic}.dlq", self.topics[topic])
                recorder.note("letters", group=group, topic=topic, records=letters)
                recorder.note("backlog", group=group)
        recorder.close()


def topic_id(client: RawClient, name: str) -> UUID:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    (found,) = client.ask(request, MetadataResponse, 12).topics
    return found.topic_id


def read_letters(client: RawClient, topic: str, partitions: int) -> list[tuple[int, int, int, str]]:
    """Partition, offset, delivery count and reason of each dead letter. Their topic may have fewer partitions than that
    of the records, or none, if it was never needed."""
    found: list[tuple[int, int, int, str]] = []
    for partition in range(partitions):
        offset = 0
        while True:
            data = client.fetch(topic, offset, partition=partition)
            if data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return found
            assert data.error_code == 0, data.error_code
            before = offset
            for header, batch in batches.iterate(data.records or b""):
                for record in batches.read_records(batch, header, BYTES_MAX):
                    origin = dead_letter_headers.read(record.headers)
                    assert origin is not None, record
                    if record.offset >= offset:
                        found.append((origin.partition, origin.offset, origin.delivery_count, origin.reason.label))
                offset = max(offset, header.next_offset)
            if offset == before:
                break
    return found


def _gauge(client: RawClient, name: str) -> float:
    families = client.ask(DescribeMetricsRequest(name_prefix=name), DescribeMetricsResponse, 0).families
    return sum(sample.value for family in families if family.name == name for sample in family.samples)
