"""Transactions: their cost for producers that write in them, and for consumers that read the resulting log.

Both are compared with the same without transactions, in turns on one broker, so that the ratio holds on a busy machine.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.broker_process import BrokerProcess
from benchmarks.clients import Outcome, Run, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import committed, transactions
from benchmarks.loads.committed import READ_COMMITTED, READ_UNCOMMITTED
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic, record_count

TOPIC = "transactions"
PARTITIONS = 6
TRANSACTION_RECORDS = 1000
# A log of small transactions is mostly markers, and takes long to write.
SMALL_TRANSACTION_RECORDS = 10
# The topic's share of the bytes of a bulk case; it is read over and over.
HELD_SHARE = {TRANSACTION_RECORDS: 16, SMALL_TRANSACTION_RECORDS: 256}
READ_PASSES = 2
# By record size: the share of the bytes of a bulk case that is written per turn.
WRITTEN_SHARE = {100: 16, 1024: 4}
# The order alternates (with, without, without, with), so that drift affects both alike.
TURNS = (False, True, True, False)


def _fetch(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    for records, share in HELD_SHARE.items():
        where = directory / str(records)
        where.mkdir()
        with system.start(where, system.broker_settings(Flush.OS)) as broker:
            create_topic(broker.address, TOPIC, 1, system.topic_settings(Flush.OS))
            fill = partial(committed.fill, topic=TOPIC, bytes_wanted=scale.bulk_bytes // share)
            run(broker, partial(fill, address=broker.address, transaction_records=records))
            fetch = partial(committed.fetch, topic=TOPIC, bytes_wanted=READ_PASSES * scale.bulk_bytes)
            (read,) = run(broker, partial(fetch, address=broker.address, processes=broker.processes)).outcomes
        name = f"transactions of {records:,} records"
        uncommitted, found = read[READ_UNCOMMITTED], read[READ_COMMITTED]
        yield Figure(f"{name}: read_uncommitted, broker CPU", "s/GB", uncommitted.broker_s_per_gigabyte)
        yield Figure(f"{name}: read_committed, broker CPU", "s/GB", found.broker_s_per_gigabyte)
        ratio = found.broker_s_per_gigabyte / uncommitted.broker_s_per_gigabyte
        yield Figure(f"{name}: ratio", "times", ratio)


def _produce(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    for record_bytes, share in WRITTEN_SHARE.items():
        for producers in scale.producers:
            where = directory / f"{record_bytes}-{producers}"
            where.mkdir()
            each = scale.bulk_bytes // share // record_bytes // TRANSACTION_RECORDS // producers
            with system.start(where, system.broker_settings(Flush.OS)) as broker:
                page_cache.prepare(where, len(TURNS) * scale.bulk_bytes // share)
                plain, in_transactions = _take_turns(system, broker, record_bytes, producers, max(each, 1))
            name = f"{record_bytes} B, {producers} producer{'s' if producers > 1 else ''}"
            for kind, measured in (("plain", plain), ("transactions", in_transactions)):
                yield Figure(f"{name}: {kind}", "records/s", _records_per_second(measured))
                broker_s = sum(one.broker.total_s for one in measured)
                yield Figure(f"{name}: {kind}, broker CPU", "s/million", broker_s / _record_count(measured) * 1e6)
                client_s = sum(outcome.client.total_s for one in measured for outcome in one.outcomes)
                yield Figure(f"{name}: {kind}, client CPU", "s/million", client_s / _record_count(measured) * 1e6)
            ratio = _records_per_second(in_transactions) / _records_per_second(plain)
            yield Figure(f"{name}: ratio", "times", ratio)


def _take_turns(
    system: System, broker: BrokerProcess, record_bytes: int, producers: int, each: int
) -> tuple[list[Run[Outcome]], list[Run[Outcome]]]:
    """`each` is the number of transactions' worth of records that every producer writes per turn. Returns the turns
    without and those with transactions."""
    topics = {is_transactional: f"{TOPIC}-{is_transactional}" for is_transactional in (False, True)}
    runs: dict[bool, list[Run[Outcome]]] = {False: [], True: []}
    for topic in topics.values():
        create_topic(broker.address, topic, PARTITIONS, system.topic_settings(Flush.OS))
    for is_transactional in TURNS:
        produce = partial(
            transactions.produce,
            address=broker.address,
            topic=topics[is_transactional],
            transactions=each,
            transaction_records=TRANSACTION_RECORDS,
            record_bytes=record_bytes,
        )
        ids = [f"producer-{number}" if is_transactional else None for number in range(producers)]
        runs[is_transactional].append(run(broker, *(partial(produce, transactional_id=one) for one in ids)))
    for is_transactional, topic in topics.items():
        found, expected = record_count(broker.address, topic, PARTITIONS), _record_count(runs[is_transactional])
        # The log also holds markers, and the records that each producer wrote before the clock ran.
        if found < expected:
            raise RuntimeError(f"{expected} records of {topic} were acknowledged, and the broker has {found}")
    return runs[False], runs[True]


def _record_count(runs: list[Run[Outcome]]) -> int:
    return sum(outcome.records for one in runs for outcome in one.outcomes)


def _records_per_second(runs: list[Run[Outcome]]) -> float:
    return _record_count(runs) / sum(max(outcome.seconds for outcome in one.outcomes) for one in runs)


FETCH_COMMITTED = Case(
    "fetch-committed",
    f"plain socket, 1 MiB per fetch, 1 partition with transactions of {committed.PRODUCERS} producers in turn, "
    f"{100 // committed.ABORTED_EVERY} % aborted, {committed.RECORD_BYTES} B records; both isolation levels in turn",
    _fetch,
)
PRODUCE_TRANSACTIONS = Case(
    "produce-transactions",
    f"librdkafka, transactions of {TRANSACTION_RECORDS:,} records one after another, {PARTITIONS} partitions, "
    "acks=all, flush=os, against the same idempotent producers without transactions, in turn",
    _produce,
)
