"""`connections.max.reauth.ms` under load: clients authenticate again, or connect again, and no record is lost or
doubled."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from headwater.client.metrics import read_metrics
from tests.support.security.clients import TIMEOUT_S, Aiokafka, Confluent, KafkaPython
from tests.support.security.logins import OAUTHBEARER, PLAIN, SASL_SSL, SCRAM_256, SCRAM_512
from tests.support.security.raw_sasl import RawSasl
from tests.support.security.secured_broker import SecuredBroker, secured_broker

# The shortest that kafka-python follows.
SESSION_MS = 1000
# Of the client under load, those of its first connections included.
AUTHENTICATIONS = 5
BATCH = 20
# Produces numbered records until it may stop, and gives how many were acknowledged.
Flood = Callable[[SecuredBroker, str, Callable[[], bool]], int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {"connections.max.reauth.ms": str(SESSION_MS)}
    with secured_broker(tmp_path_factory.mktemp("sessions"), settings) as broker:
        yield broker


class Authentications:
    """How often clients have authenticated with a mechanism. Only the client under test has this one."""

    def __init__(self, broker: SecuredBroker, mechanism: str) -> None:
        self._broker = broker
        self._label = ("mechanism", mechanism)

    def count(self, result: str = "success") -> int:
        with self._broker.cluster() as cluster:
            (families,) = read_metrics(cluster, "headwater_authentications_total").values()
        return sum(
            int(sample.value)
            for family in families
            for sample in family.samples
            if self._label in sample.labels and ("result", result) in sample.labels
        )


def confluent(broker: SecuredBroker, topic: str, may_stop: Callable[[], bool]) -> int:
    client = Confluent(broker.login(SASL_SSL, SCRAM_256))
    producer = client._producer(**{"enable.idempotence": True})
    sent, acknowledged = 0, 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    while not may_stop():
        for number in range(sent, sent + BATCH):
            producer.produce(topic, b"%d" % number, on_delivery=delivered)
        sent += BATCH
        producer.poll(0.01)
    assert producer.flush(TIMEOUT_S) == 0
    assert acknowledged == sent
    return sent


def aiokafka(broker: SecuredBroker, topic: str, may_stop: Callable[[], bool]) -> int:
    from aiokafka import AIOKafkaProducer

    async def run() -> int:
        producer = AIOKafkaProducer(**Aiokafka(broker.login(SASL_SSL, PLAIN))._settings, enable_idempotence=True)
        await producer.start()
        sent = 0
        try:
            while not may_stop():
                batch = [await producer.send(topic, b"%d" % (sent + number)) for number in range(BATCH)]
                sent += BATCH
                await asyncio.gather(*batch)
        finally:
            await producer.stop()
        return sent

    return asyncio.run(run())


def kafka_python(broker: SecuredBroker, topic: str, may_stop: Callable[[], bool]) -> int:
    producer = KafkaPython(broker.login(SASL_SSL, OAUTHBEARER))._producer()
    sent = 0
    try:
        while not may_stop():
            batch = [producer.send(topic, b"%d" % (sent + number)) for number in range(BATCH)]
            sent += BATCH
            for each in batch:
                each.get(TIMEOUT_S)
    finally:
        producer.close()
    return sent


FLOODS: Mapping[str, tuple[Flood, str]] = {
    "confluent": (confluent, SCRAM_256),
    "aiokafka": (aiokafka, PLAIN),
    "kafka-python": (kafka_python, OAUTHBEARER),
}


@pytest.mark.parametrize(
    "client", [name if name == "confluent" else pytest.param(name, marks=pytest.mark.slow) for name in FLOODS]
)
def test_no_record_is_lost_or_doubled_while_an_idempotent_producer_authenticates_again(
    broker: SecuredBroker, topic: str, client: str
) -> None:
    flood, mechanism = FLOODS[client]
    authentications = Authentications(broker, mechanism)
    before = authentications.count()
    is_enough = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 3 * TIMEOUT_S
        while authentications.count() < before + AUTHENTICATIONS and time.monotonic() < deadline:
            # Long enough not to be the load itself.
            is_enough.wait(0.05)
        is_enough.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        sent = flood(broker, topic, is_enough.is_set)
    finally:
        is_enough.set()
        watcher.join()

    assert authentications.count() >= before + AUTHENTICATIONS
    assert authentications.count("failure") == 0
    with RawSasl(broker.login(SASL_SSL, SCRAM_512)) as reader:
        reader.log_in()
        values = [record.value for record in reader.records(topic)]
    assert values == [b"%d" % number for number in range(sent)]


def test_a_group_reads_on_through_many_sessions(broker: SecuredBroker, topic: str) -> None:
    from confluent_kafka import Consumer

    login = broker.login(SASL_SSL, SCRAM_256)
    authentications = Authentications(broker, SCRAM_256)
    before = authentications.count()
    writer = Confluent(broker.login(SASL_SSL, PLAIN))
    consumer = Consumer(
        {**Confluent(login)._settings, "group.id": topic, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50}
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    sent = 0
    try:
        while authentications.count() < before + AUTHENTICATIONS:
            writer.produce(topic, [b"%d" % (sent + number) for number in range(BATCH)])
            sent += BATCH
            while len(found) < sent:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None
                assert message.error() is None
                found.append(message.value())
    finally:
        consumer.close()

    assert found == [b"%d" % number for number in range(sent)], "a rebalance would give records again"


def test_a_deleted_user_is_gone_when_its_session_ends(
    broker: SecuredBroker, topic: str, new_user: Callable[..., tuple[str, str]]
) -> None:
    user, password = new_user("reader", "writer")
    with RawSasl(broker.login(SASL_SSL, SCRAM_512).but(user=user, password=password)) as client:
        client.log_in()
        broker.delete_user(user)
        assert client.produce(topic, None).error_code != 0
        # Its session goes on until then, as in Kafka.
        assert client.log_in().error_code == 58
        assert client.is_closed()
