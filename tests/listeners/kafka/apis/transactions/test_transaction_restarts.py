"""Transactions over restarts of the broker at the worst moments, and their time-outs, as clients see them."""

from pathlib import Path

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.testing import Broker
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_groups import committed, find
from tests.support.kafka.raw_transactions import (
    COMMIT_OFFSETS_1,
    END_1,
    END_2,
    PRODUCE_1,
    SETTINGS,
    Producer,
    add,
    add_offsets,
    ask_init,
    await_state,
    commit_offset,
    committed_values,
    end,
    ended,
    init,
    markers,
    stable_offset,
    state,
    values,
    write,
    write_request,
    written,
)

ENDS = pytest.mark.parametrize("is_commit", [True, False])
PROTOCOLS = pytest.mark.parametrize("version", [END_1, END_2])


def begin(client: RawClient, topic: str, *, version: int) -> Producer:
    client.create(topic)
    producer = init(client, "tx")
    if version == END_1:
        assert add(client, producer, topic) == 0
        written(client, producer, topic, b"first", version=PRODUCE_1)
    else:
        written(client, producer, topic, b"first")
    return producer


def await_loaded(client: RawClient) -> None:
    """Retries while the coordinator is being loaded, as clients do."""
    while ask_init(client, "another").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass


@PROTOCOLS
@ENDS
def test_a_restart_between_records_and_their_end_keeps_the_transaction(
    tmp_path: Path, version: int, is_commit: bool
) -> None:
    with Broker(SETTINGS, data_directory=tmp_path) as broker, RawClient(broker) as client:
        producer = begin(client, "topic", version=version)
    with Broker(SETTINGS, data_directory=tmp_path) as again, RawClient(again) as client:
        await_state_after_load(client, "Ongoing")
        assert committed_values(client, "topic") == []
        produce = PRODUCE_1 if version == END_1 else 12
        written(client, producer, "topic", b"second", sequence=1, version=produce)
        ended(client, producer, commit=is_commit, version=version)
        assert committed_values(client, "topic") == ([b"first", b"second"] if is_commit else [])


def test_a_restart_between_partitions_and_records_keeps_the_transaction(tmp_path: Path) -> None:
    with Broker(SETTINGS, data_directory=tmp_path) as broker, RawClient(broker) as client:
        client.create("topic")
        producer = init(client, "tx")
        assert add(client, producer, "topic") == 0
    with Broker(SETTINGS, data_directory=tmp_path) as again, RawClient(again) as client:
        written(client, producer, "topic", b"a", version=PRODUCE_1)
        ended(client, producer, version=END_1)
        assert committed_values(client, "topic") == [b"a"]


def await_state_after_load(client: RawClient, wanted: str) -> None:
    await_loaded(client)
    await_state(client, "tx", wanted)


@PROTOCOLS
@ENDS
def test_a_restart_between_decision_and_last_marker_completes_the_transaction(
    tmp_path: Path, version: int, is_commit: bool
) -> None:
    disk = FaultyDisk()
    with Broker(SETTINGS, data_directory=tmp_path, disk=disk) as broker, RawClient(broker) as client:
        producer = begin(client, "cursed", version=version)
        disk.write_error = FULL
        assert end(client, producer, commit=is_commit, version=version).error_code == 0
        assert state(client, "tx") == ("PrepareCommit" if is_commit else "PrepareAbort")
        # Its answer was lost: the client repeats the request, and is told to wait.
        again_told = end(client, producer, commit=is_commit, version=version)
        assert again_told.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert stable_offset(client, "cursed") == 0
    with Broker(SETTINGS, data_directory=tmp_path) as again, RawClient(again) as client:
        await_state_after_load(client, "CompleteCommit" if is_commit else "CompleteAbort")
        assert end(client, producer, commit=is_commit, version=version).error_code == 0
        assert [committing for _, _, committing in markers(client, "cursed")] == [is_commit]
        assert committed_values(client, "cursed") == ([b"first"] if is_commit else [])


def test_aborted_transactions_stay_aborted_after_a_restart(tmp_path: Path) -> None:
    with Broker(SETTINGS, data_directory=tmp_path) as broker, RawClient(broker) as client:
        producer = begin(client, "topic", version=END_2)
        producer = ended(client, producer, commit=False)
        written(client, producer, "topic", b"second")
        producer = ended(client, producer)
        written(client, producer, "topic", b"third")
        ended(client, producer, commit=False)
        client.produce("topic", batch_of(b"plain"))
    with Broker(SETTINGS, data_directory=tmp_path) as again, RawClient(again) as client:
        assert committed_values(client, "topic") == [b"second", b"plain"]
        assert values(client, "topic") == [b"first", b"second", b"third", b"plain"]
        await_loaded(client)
        assert init(client, "tx").epoch == producer.epoch + 2


def test_a_producer_is_told_to_retry_while_its_coordinator_loads() -> None:
    disk = FaultyDisk()
    with Broker(SETTINGS, disk=disk) as broker, RawClient(broker) as client:
        find(client, "group")
        client.create("healthy")
        producer = begin(client, "cursed", version=END_1)
        disk.write_error = FULL
        assert end(client, producer, version=END_1).error_code == 0
        # The previous transaction has not ended yet: in protocol 1 clients retry on these codes.
        told = client.ask(write_request(producer, "healthy", b"a"), ProduceResponse, PRODUCE_1)
        assert told.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert add_offsets(client, producer, "group") == ErrorCode.CONCURRENT_TRANSACTIONS
        for version in range(COMMIT_OFFSETS_1 + 1):
            code = commit_offset(client, producer, "group", "healthy", 7, version=version)
            assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = commit_offset(client, producer, "group", "healthy", 7, version=COMMIT_OFFSETS_1 + 1)
        assert code == ErrorCode.CONCURRENT_TRANSACTIONS
        disk.heal()
        await_state(client, "tx", "CompleteCommit")


# -- time-outs


def pass_time(broker: Broker, clock: ManualClock, milliseconds: int) -> None:
    clock.advance(milliseconds)

    def wake() -> None:
        for shard in broker.node.broker.transactions.shards:
            shard.wake()

    on_loop(broker, wake)


@PROTOCOLS
def test_a_transaction_left_open_is_aborted_after_its_time_out(timed: Broker, clock: ManualClock, version: int) -> None:
    with RawClient(timed) as client:
        producer = begin(client, "topic", version=version)
        client.produce("topic", batch_of(b"plain"))
        pass_time(timed, clock, 59_999)
        assert (state(client, "tx"), committed_values(client, "topic")) == ("Ongoing", [])
        pass_time(timed, clock, 1)
        await_state(client, "tx", "CompleteAbort")
        assert committed_values(client, "topic") == [b"plain"]
        assert markers(client, "topic") == [(producer.id, 1, False)]

        code = end(client, producer, version=version).error_code
        assert code == (ErrorCode.PRODUCER_FENCED if version == END_1 else ErrorCode.INVALID_TXN_STATE)
        told = write(client, producer, "topic", b"late", sequence=1)
        assert told.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        # The producer names its old identity and continues.
        following = init(client, "tx", expected=(producer.id, producer.epoch))
        written(client, following, "topic", b"next")
        ended(client, following, version=version)
        assert committed_values(client, "topic") == [b"plain", b"next"]


def test_offsets_of_a_transaction_that_timed_out_do_not_count(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        client.create("topic")
        find(client, "group")
        producer = init(client, "tx", timeout_ms=1000)
        assert commit_offset(client, producer, "group", "topic", 7) == 0
        pass_time(timed, clock, 1000)
        await_state(client, "tx", "CompleteAbort")
        assert committed(client, "group", "topic").committed_offset == -1
        code = commit_offset(client, producer, "group", "topic", 8)
        assert code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_unused_id_expires_and_its_producer_starts_anew(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        producer = begin(client, "topic", version=END_2)
        following = ended(client, producer)
        clock.advance(7 * 24 * 3_600_000)
        timed.call(timed.node.broker.transactions.expire())
        told = write(client, following, "topic", b"a")
        assert told.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        anew = init(client, "tx")
        assert (anew.id != producer.id, anew.epoch) == (True, 0)
