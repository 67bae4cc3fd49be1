"""How producers and the broker agree on what is stored: acks, idempotence, sizes, and a broker that dies."""

import time
from pathlib import Path

import pytest

from headwater.protocol.batches.batch import BatchHeader, iterate
from tests.interop.clients.confluent import Confluent
from tests.interop.clients.program import Program, ProgramClient
from tests.interop.dump_log import DumpLog
from tests.interop.exchange import Acks, AdminClient, Record, Refused
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop

each_admin = pytest.mark.parametrize("admin", ["confluent", "java", "franz"], indirect=True)

KILLS = 3
RECORDS_BETWEEN_KILLS = 2000
DEADLINE_S = 60


def headers(directory: Path) -> list[BatchHeader]:
    return [header for log in sorted(directory.glob("*.log")) for header, _ in iterate(log.read_bytes())]


@each_admin
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_whatever_acknowledgement_is_asked_for(admin: AdminClient, topic: str, acks: Acks) -> None:
    admin.create_topic(topic)

    offsets = admin.produce(topic, [Record(None, b"%d" % number) for number in range(20)], acks=acks)

    assert [record.value for record in admin.consume(topic, 20).values()] == [b"%d" % number for number in range(20)]
    if acks != "0":
        assert offsets == list(range(20))


@each_admin
def test_idempotent_batches_carry_the_producer_and_its_sequence(
    admin: AdminClient, topic: str, data_directory: Path
) -> None:
    admin.create_topic(topic)

    admin.produce(topic, [Record(None, b"%d" % number) for number in range(20)])

    stored = headers(data_directory / f"{topic}-0")
    assert {(header.producer_id >= 0, header.producer_epoch) for header in stored} == {(True, 0)}
    assert [header.base_sequence for header in stored] == [header.base_offset for header in stored]


@each_admin
def test_a_record_over_the_limit_of_its_topic_is_refused(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic, configs={"max.message.bytes": "1000"})

    with pytest.raises(Refused) as refused:
        admin.produce(topic, [Record(None, b"v" * 2000)])

    assert refused.value.error == "MESSAGE_TOO_LARGE"
    assert admin.offset(topic, "latest").offset == 0


@each_admin
def test_a_record_without_a_key_is_refused_by_a_compacted_topic(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic, configs={"cleanup.policy": "compact"})

    with pytest.raises(Refused) as refused:
        admin.produce(topic, [Record(None, b"v")])

    assert refused.value.error == "INVALID_RECORD"


def test_the_java_client_splits_a_batch_that_the_topic_finds_too_large(java: ProgramClient, topic: str) -> None:
    java.create_topic(topic, configs={"max.message.bytes": "30000"})
    records = [Record(None, b"%1000d" % number) for number in range(200)]

    offsets = java.produce(topic, records, options={"batch.size": "1000000", "linger.ms": "100"})

    assert offsets == list(range(200))
    assert [record.value for record in java.consume(topic, 200).values()] == [record.value for record in records]


@pytest.mark.parametrize("program", ["java_program", "go_program"])
def test_an_idempotent_producer_stores_each_record_once_although_its_broker_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path, dump_log: DumpLog, program: str
) -> None:
    driven: Program = request.getfixturevalue(program)
    data_directory = tmp_path / "data"
    with BrokerProcess(data_directory, {"log.segment.bytes": "65536", "log.index.interval.bytes": "512"}) as broker:
        producer = ProgramClient(driven, broker.bootstrap_servers)
        Confluent(broker.bootstrap_servers).create_topic("flooded")
        producer.start_flood(
            "flooded",
            # Small batches make many requests, so that a kill finds some in flight.
            {"batch.size": "500", "buffer.memory": "100000", "reconnect.backoff.max.ms": "50"},
        )
        for _ in range(KILLS):
            wait_for_more(broker)
            broker.kill()
            broker.start()
        wait_for_more(broker)
        acked = producer.stop_flood()

        reader = Confluent(broker.bootstrap_servers)
        read = reader.consume("flooded", acked)
        assert [int(record.value or b"") for record in read.values()] == list(range(acked)), "in order, each once"
        assert list(read) == list(range(acked))
        assert reader.offset("flooded", "latest").offset == acked
        assert broker.stop() == 0
    check_files(dump_log, data_directory / "flooded-0", acked)


def wait_for_more(broker: BrokerProcess) -> None:
    # A new client each time: librdkafka's goes on with the leader that it knew before the kill.
    reader = Confluent(broker.bootstrap_servers)
    goal = reader.offset("flooded", "latest").offset + RECORDS_BETWEEN_KILLS
    deadline = time.monotonic() + DEADLINE_S
    while reader.offset("flooded", "latest").offset < goal:
        assert time.monotonic() < deadline, "the producer stands still"


def check_files(dump_log: DumpLog, directory: Path, count: int) -> None:
    dump = dump_log(sorted(directory.glob("*.log")), "--deep-iteration")
    assert not dump.complaints
    assert not dump.holes
    assert {batch["isvalid"] for batch in dump.batches} == {"true"}
    assert [int(record["offset"]) for record in dump.records] == list(range(count))
    assert [int(record["sequence"]) for record in dump.records] == list(range(count))
