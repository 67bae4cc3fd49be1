"""Share groups are given the records of a topic with priorities by weight, in every order of events."""

from pathlib import Path

import pytest

from headwater.broker.shares.priority import selection as selection_module
from headwater.clock import ManualClock
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ConfigError
from headwater.ids import GroupId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.directives import PRIORITY
from headwater.protocol.batches.invalid_record import InvalidRecord
from headwater.protocol.batches.records import Record
from tests.broker.shares.dead_letter_cases import configure, until
from tests.broker.shares.priority.priority_cases import WEIGHTS, batch, counts, lanes_in, put, queue, taken
from tests.broker.shares.share_commands import ACCEPT, BOB, RELEASE, SETTINGS, Shared, shared
from tests.support.broker.embedded_broker import NOW_MS, create, produce, run, running, settled
from tests.support.broker.transactions import end, initialized, stage


async def test_the_most_urgent_record_comes_first_wherever_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, None, 3)
        await put(jobs, 2, 0)
        await put(jobs, 1)
        assert await taken(jobs, 6) == [4, 5, 1, 3, 2, 0]
        await put(jobs, 4)
        await put(jobs, 0)
        assert await taken(jobs, 2) == [7, 6]
        share = broker.shares.find(jobs.id)
        assert share is not None
        assert share.runs.start == 8, "nothing is left behind"


@pytest.mark.parametrize("at_once", [1, 7, 500])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_lanes_share_by_weight_while_all_are_full(tmp_path: Path, at_once: int, codec: int) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker, segment_bytes="8000")
        for _ in range(15):
            await put(jobs, *[number % 5 for number in range(100)], codec=codec)
        lanes = lanes_in(jobs)
        got = (await taken(jobs, 500, at_once=at_once))[:500]
        assert counts([lanes[offset] for offset in got]) == [5 * weight for weight in WEIGHTS]


async def test_weights_are_a_setting_of_the_group(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, *[number % 5 for number in range(200)])
        await configure(broker, headwater_share_priority_weights="1, 1,1,1, 6")
        lanes = lanes_in(jobs)
        assert [lanes[offset] for offset in await taken(jobs, 10)] == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize(
    "weights", ["", "1,2,3,4", "1,2,3,4,5,6", "1,2,3,4,0", "1,2,3,4,-5", "1,2,3,4,x", "1,2,3,4,1e3"]
)
async def test_impossible_weights_are_refused(tmp_path: Path, weights: str) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        with pytest.raises(ConfigError, match="5 numbers from 1 to 9999"):
            await configure(broker, headwater_share_priority_weights=weights)


async def test_an_empty_lane_costs_nothing_and_saves_nothing_up(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, *[4] * 200)
        assert await taken(jobs, 60) == [*range(60)]
        await put(jobs, *[0] * 200)
        lanes = lanes_in(jobs)
        got = [lanes[offset] for offset in await taken(jobs, 212, at_once=53)]
        assert counts(got) == [200, 0, 0, 0, 12]


async def test_what_comes_back_is_next_in_its_lane(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, 0, 4, 0, 1)
        assert await jobs.fetched(records_max=2) == [(1, 1, 1), (3, 3, 1)]
        await jobs.acknowledge(1, 1, RELEASE)
        await jobs.acknowledge(3, 3, RELEASE)
        assert await jobs.fetched(records_max=1) == [(1, 1, 2)]
        await jobs.acknowledge(1, 1, RELEASE)
        assert await jobs.fetched(records_max=1) == [(3, 3, 2)], "record 1 has no attempt left"
        await jobs.acknowledge(3, 3, ACCEPT)
        assert await taken(jobs, 3) == [4, 0, 2]


async def test_records_of_a_lock_that_ran_out_come_back(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, 0)
        assert await jobs.fetched(records_max=1) == [(1, 1, 1)]
        waiting = jobs.fetch(BOB, records_max=1)
        (read,) = await run(waiting.wait())
        assert [each.first for each in read.acquired] == [0]
        waiting = jobs.fetch(BOB)
        clock.advance(30_000)
        for shard in broker.shares.shards:
            shard.wake()
        (read,) = await run(waiting.wait())
        assert [tuple(each) for each in read.acquired] == [(0, 1, 2)]


async def test_a_member_waits_for_records_of_any_lane(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        waiting = jobs.fetch()
        await put(jobs, 3)
        (read,) = await run(waiting.wait())
        assert [tuple(each) for each in read.acquired] == [(0, 0, 1)]


async def test_records_from_many_places_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    """As clients need it: they walk over the batches and the acquired ranges side by side."""
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker, segment_bytes="1000")
        for number in range(60):
            await put(jobs, number % 5, value=b"%d" % number)
        (read,) = await run(jobs.fetch(records_max=50).wait())
        offsets = [offset for first, last, _ in read.acquired for offset in range(first, last + 1)]
        assert offsets == sorted(offsets)
        data = read.records.read()
        there = [(header.base_offset, one) for header, one in batches.iterate(data)]
        assert [base for base, _ in there] == offsets, "only batches of acquired records are sent"
        for offset, one in there:
            (record,) = batches.read_records(one, batches.read_header(one), 1000)
            assert record.value == b"%d" % offset
        assert len(data) == len(read.records) == len(read.records.read_resident() or b"")


async def test_markers_and_aborted_records_are_passed_over(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await configure(broker, share_isolation_level="read_committed")
        producer = await initialized(broker)
        for number in range(4):
            await settled(stage(broker, jobs.partition, producer, b"v"))
            producer = await end(broker, producer, is_commit=number % 2 == 0)
        await put(jobs, 4, 0)
        assert await taken(jobs, 4, committed_only=True) == [9, 0, 4, 8]
        share = broker.shares.find(jobs.id)
        assert share is not None
        assert await jobs.fetched(wait_ms=0, committed_only=True) == []
        assert share.runs.unfinished_count == 0, "nothing holds the start back"


async def test_expired_records_are_given_up_in_every_lane(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        jobs = await queue(broker, headwater_ttl_enable="true")
        records = [
            Record(at, NOW_MS, b"k", b"v", ((PRIORITY, b"%d" % (at % 5)), ("headwater-ttl-ms", b"%d" % ttl)))
            for at, ttl in enumerate((10, 9000, 9000, 10, 10, 9000, 10, 10, 9000, 9000))
        ]
        for codec in (Codec.NONE, Codec.GZIP):
            appended = await produce(broker, jobs.partition, bytes(batches.build(records, codec=codec)))
            assert appended.error is None
        clock.advance(100)
        assert sorted(await taken(jobs, 10)) == [1, 2, 5, 8, 9, 11, 12, 15, 18, 19]
        assert await jobs.fetched(wait_ms=0) == []
        await until(lambda: broker.shares.measurements.outlived.value == 10)


async def test_a_backlog_of_expired_records_does_not_stop_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection_module, "STEPS_MAX", 3)
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        jobs = await queue(broker, headwater_ttl_ms="1000")
        for number in range(40):
            await put(jobs, number % 5)
        clock.advance(2000)
        record = Record(0, NOW_MS + 2000, b"k", b"v", ((PRIORITY, b"4"),))
        await produce(broker, jobs.partition, bytes(batches.build([record])))
        assert await jobs.fetched() == [(40, 40, 1)]


async def test_priorities_that_were_written_before_count_from_the_switch_on(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await shared(broker, "jobs")
        await put(jobs, 4, None, 0)
        odd = [(PRIORITY, b"9"), (PRIORITY, b"high"), (PRIORITY, None), (PRIORITY, b"00")]
        records = [Record(at, NOW_MS, b"k", b"v", (header,)) for at, header in enumerate(odd)]
        records.append(Record(4, NOW_MS, b"k", b"v", ((PRIORITY, b"0"), (PRIORITY, b"1"))))
        await produce(broker, jobs.partition, bytes(batches.build(records)))
        assert await jobs.fetched(records_max=1, is_strict=True) == [(0, 0, 1)]
        assert not list(jobs.partition.directory.glob("*.lanes"))
        await broker.configs.replace(2, "jobs", {"headwater.priority.enable": "true"}, validate_only=False)
        assert await taken(jobs, 7) == [2, 1, 3, 4, 5, 6, 7]
        await jobs.acknowledge(0, 0, RELEASE)
        assert await taken(jobs, 1) == [0]


async def test_without_the_setting_the_rest_comes_in_the_order_of_the_log(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await configure(broker, share_partition_max_record_locks="100")
        await put(jobs, *[4] * 500, *[0] * 10)
        assert await taken(jobs, 11) == [*range(500, 510), 0]
        await broker.configs.replace(2, "jobs", {"headwater.priority.enable": "false"}, validate_only=False)
        held = await jobs.fetched(records_max=1000, is_strict=True)
        assert held == [(1, 100, 1)], "no more than the limit of locks, although all of them were passed over before"
        await jobs.acknowledge(1, 100, ACCEPT)
        assert await taken(jobs, 399) == [*range(101, 500)]


async def test_no_more_are_under_way_than_there_are_locks(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await configure(broker, share_partition_max_record_locks="100")
        for _ in range(3):
            await put(jobs, *[number % 5 for number in range(100)])
        (read,) = await run(jobs.fetch(records_max=500).wait())
        assert sum(each.last - each.first + 1 for each in read.acquired) == 100
        assert await jobs.fetched(BOB, wait_ms=0) == []
        first = read.acquired[0].first
        await jobs.acknowledge(first, first, ACCEPT)
        assert len(await jobs.fetched(BOB)) == 1


async def test_with_many_ranges_the_oldest_records_come_first(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await configure(broker, headwater_share_priority_ranges_max="100")
        await put(jobs, *[4, 0] * 300)
        share = broker.shares.find(jobs.id)
        got: list[int] = []
        sizes: list[int] = []
        for _ in range(400):
            got += await taken(jobs, 1)
            share = broker.shares.find(jobs.id)
            assert share is not None
            sizes.append(len(share.runs))
        assert sorted(set(got)) == sorted(got)
        assert max(sizes) <= 102
        late = [offset % 2 == 0 for offset in got[200:]]
        assert 0.4 <= sum(late) / len(late) <= 0.6, "what fills the gaps is as much as what makes new ones"


async def test_two_groups_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, 0, 4, 0)
        other = SharePartitionId(GroupId("other"), jobs.id.topic_id, 0)
        await broker.shares.begin_at(other, jobs.partition, "earliest")
        assert await taken(jobs, 2) == [1, 3]
        jobs.id, first = other, jobs.id
        assert await taken(jobs, 4) == [1, 3, 0, 2]
        jobs.id = first
        assert await taken(jobs, 2) == [0, 2]


async def test_a_topic_without_priorities_pays_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await shared(broker)
        appended = await produce(broker, orders.partition, batch(4, 0, 9))
        assert appended.error is None, "the header says nothing here"
        assert await orders.fetched() == [(0, 2, 1)]
        assert "priorities" not in vars(broker.shares)
        assert not list(orders.partition.directory.glob("*.lanes"))
        share = broker.shares.find(orders.id)
        assert share is not None
        assert share.returned is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
async def test_an_impossible_priority_is_refused(tmp_path: Path, codec: int) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        with pytest.raises(InvalidRecord, match=r"0 \(critical\) to 4 \(background\)"):
            await put(jobs, 4, 5, codec=codec)


async def test_deleted_topics_and_groups_are_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, 0)
        assert await taken(jobs, 1) == [1]
        await broker.topics.delete("jobs")
        again = Shared(broker, await create(broker, "jobs", 1, headwater_priority_enable="true"))
        await put(again, 4, 0, 0)
        assert await taken(again, 3) == [1, 2, 0]
        priorities = broker.shares.priorities
        assert [*priorities._heads] == [again.id]
        assert [there.partition for there in priorities._partitions.values()] == [again.partition]
