"""Share groups whose broker and members are killed again and again keep every promise."""

from pathlib import Path
from random import Random

import pytest

from tests.faults.queues.failpoints import QUEUE_FAILPOINTS
from tests.faults.queues.load import SETTINGS, QueueLoad
from tests.faults.queues.rounds import FAULTS_A_ROUND, Crowd, run
from tests.support.broker.processes import BrokerProcess

KILLS = 3


@pytest.mark.parametrize(
    ("total", "kills", "members"),
    [(3000, 1, 3), pytest.param(200_000, 10, 8, marks=pytest.mark.slow)],
)
def test_records_in_numbers_over_kills_of_the_broker_and_of_members(
    tmp_path: Path, total: int, kills: int, members: int
) -> None:
    """librdkafka's share consumers, of which some are killed and paused, too."""
    random = Random(total)
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        QueueLoad(broker, tmp_path / "history", limit_s=180) as load,
    ):
        topic = load.queue("orders", "billing", 4)
        producer = load.start("producer", topic, per_second=20_000, at_a_time=250)
        crowd = Crowd(load, random, members, is_client=True)
        for kill in range(kills):
            load.wait_until("send", (kill + 1) * total // (kills + 2))
            load.restart()
            random.choice([crowd.kill_one, crowd.pause_one])()
        load.wait_until("send", total)
        load.leave(producer)
        found = load.finish()
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_members_and_the_broker_are_killed_and_paused(tmp_path: Path) -> None:
    random = Random(1)
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, QueueLoad(broker, tmp_path / "history") as load:
        topic = load.queue("orders", "billing", headwater_ttl_enable="true")
        load.start("producer", topic, per_second=400, ttl_ms=2000)
        members = [load.share("billing"), load.share("billing"), load.share("billing", is_client=True)]
        for _ in range(KILLS):
            load.wait_for_more("settle", 60)
            load.restart()
            load.wait_for_more("settle", 60)
            chosen = random.choice(members)
            load.pause_beyond_the_lock(chosen)
            members.remove(chosen)
            load.replace(chosen)
            members.append(load.clients[-1])
        found = load.finish()
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_delayed_records_appear_once_and_in_time_over_kills(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, QueueLoad(broker, tmp_path / "history") as load:
        topic = load.delays("reminders")
        load.start("watcher", topic)
        load.start("delayer", topic)
        load.start("delayer", topic, transactional_id="delayer")
        for _ in range(10):
            load.wait_for_more("schedule", 400)
            load.restart()
        load.wait_for_more("cancel", 1)
        load.wait_for_more("decide", 4)
        found = load.finish()
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_the_broker_kills_itself_at_named_points(tmp_path: Path) -> None:
    random = Random(2)
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, QueueLoad(broker, tmp_path / "history") as load:
        orders, reminders = load.queue("orders", "billing"), load.delays("reminders")
        load.start("producer", orders, per_second=400)
        load.start("watcher", reminders)
        load.start("delayer", reminders)
        for _ in range(3):
            load.share("billing")
        load.wait_for_more("settle", 100)
        for name, failpoint in QUEUE_FAILPOINTS.items():
            load.die_at(name, random.randint(1, failpoint.passages_max))
        load.wait_for_more("settle", 100)
        found = load.finish()
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_the_long_form_runs(tmp_path: Path) -> None:
    done = run(tmp_path, seed=1, deadline=0)
    assert (done.rounds, done.faults) == (1, FAULTS_A_ROUND)
