"""A broker that is killed under load, again and again, loses nothing that it acknowledged."""

import threading
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition  # pyright: ignore[reportPrivateImportUsage]
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.slow

KILLS = 5
ACKED_BETWEEN_KILLS = 300
PARTITIONS = 3
DEADLINE_S = 30


class Load:
    """Produces numbered records without pause, and remembers the partition and offset of each acknowledged one."""

    def __init__(self, bootstrap_servers: str, topic: str, acks: str, *, idempotent: bool, codec: str) -> None:
        self.topic = topic
        self.acked: dict[tuple[int, int], bytes] = {}
        self._acked_count = threading.Condition()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": acks,
                "enable.idempotence": idempotent,
                "compression.type": codec,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS, callback=self._done)
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            if number % 100 == 0:
                self._producer.poll(0)
            if len(self._producer) > 2_000:
                self._producer.poll(0.005)
        self._producer.flush(DEADLINE_S)

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        with self._acked_count:
            self.acked[partition, offset] = value
            self._acked_count.notify()

    def wait_for_more(self, count: int) -> None:
        with self._acked_count:
            goal = len(self.acked) + count
            assert self._acked_count.wait_for(lambda: len(self.acked) >= goal, timeout=DEADLINE_S), "no more acks"

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()


def read_everything(bootstrap_servers: str, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False})
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    try:
        partitions = [TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions}
        consumer.assign(partitions)
        while any(len(found[index]) < end for index, end in ends.items()):
            for message in consumer.consume(10_000, timeout=0.2):
                assert message.error() is None
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                found[partition].append((offset, value))
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(("flush", "codec"), [("ack", "none"), ("os", "none"), ("ack", "lz4")])
def test_kills_under_load_lose_no_acknowledged_record(tmp_path: Path, flush: str, codec: str) -> None:
    """kill -9 ends the process but not the page cache: acks=1 and acks=all must survive it under every flush policy.
    Every compressed batch is checked in a thread."""
    settings = {"headwater.flush": flush, "log.segment.bytes": "65536", "headwater.batch.inline.bytes.max": "0"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("durable", "plain")]
        for created in admin.create_topics(topics).values():
            created.result(DEADLINE_S)
        loads = [
            Load(broker.bootstrap_servers, "durable", "all", idempotent=True, codec=codec),
            Load(broker.bootstrap_servers, "plain", "1", idempotent=False, codec=codec),
        ]
        try:
            for _ in range(KILLS):
                for load in loads:
                    load.wait_for_more(ACKED_BETWEEN_KILLS)
                broker.kill()
                broker.start()
        finally:
            for load in loads:
                load.finish()
        for load in loads:
            found = read_everything(broker.bootstrap_servers, load.topic)
            stored = {(index, offset): value for index, records in found.items() for offset, value in records}
            lost = {place: value for place, value in load.acked.items() if stored.get(place) != value}
            assert not lost, f"{load.topic}: acknowledged, but lost or changed"
            for index, records in found.items():
                assert [offset for offset, _ in records] == list(range(len(records))), f"a hole in {load.topic}-{index}"
        durable = [
            value for records in read_everything(broker.bootstrap_servers, "durable").values() for _, value in records
        ]
        assert len(durable) == len(set(durable)), "an idempotent producer's record is stored twice"
        assert broker.stop() == 0
