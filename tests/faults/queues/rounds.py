"""Rounds of a load with share groups and delayed records: its clients and its broker are killed and paused at random,
and at named points; then all that the clients have seen is checked."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.faults.queues.failpoints import QUEUE_FAILPOINTS
from tests.faults.queues.load import SETTINGS, QueueLoad
from tests.support.broker.processes import BrokerProcess

GROUP = "billing"
MEMBERS_MAX = 10
FAULTS_A_ROUND = 12
BETWEEN_FAULTS = 80


class Rounds(NamedTuple):
    rounds: int
    faults: int
    settlements: int
    scheduled: int


class Crowd:
    """The members of one share group: librdkafka's, or each third."""

    def __init__(self, load: QueueLoad, random: Random, count: int, *, is_client: bool = False) -> None:
        self._load = load
        self._random = random
        self.members = [load.share(GROUP, is_client=is_client or number % 3 == 2) for number in range(count)]

    def kill_one(self) -> None:
        chosen = self._random.choice(self.members)
        self.members.remove(chosen)
        self._load.replace(chosen)
        self.members.append(self._load.clients[-1])

    def pause_one(self) -> None:
        self._load.pause_beyond_the_lock(self._random.choice(self.members))

    def join(self) -> None:
        if len(self.members) < MEMBERS_MAX:
            self.members.append(self._load.share(GROUP))

    def leave(self) -> None:
        if len(self.members) > 2:
            self._load.leave(self.members.pop(self._random.randrange(len(self.members))))


def run(directory: Path, seed: int, deadline: float) -> Rounds:
    """An AssertionError names the seed of the round."""
    done = Rounds(0, 0, 0, 0)
    while not done.rounds or time.monotonic() < deadline:
        home = directory / f"round-{seed + done.rounds}"
        done = _round(home, Random(seed + done.rounds), done)
        shutil.rmtree(home)
    return done


def _round(home: Path, random: Random, done: Rounds) -> Rounds:
    home.mkdir()
    with BrokerProcess(home / "data", SETTINGS) as broker, QueueLoad(broker, home / "history") as load:
        orders = load.queue("orders", GROUP, headwater_ttl_enable="true")
        reminders = load.delays("reminders")
        load.start("producer", orders, per_second=300, ttl_ms=2000)
        load.start("watcher", reminders)
        load.start("delayer", reminders)
        load.start("delayer", reminders, transactional_id="delayer")
        crowd = Crowd(load, random, random.randint(2, 6))
        names = [*QUEUE_FAILPOINTS]
        faults: list[Callable[[], None]] = [
            load.restart,
            lambda: load.die_at(name := random.choice(names), random.randint(1, QUEUE_FAILPOINTS[name].passages_max)),
            crowd.kill_one,
            crowd.pause_one,
            crowd.join,
            crowd.leave,
        ]
        for _ in range(FAULTS_A_ROUND):
            load.wait_for_more("settle", BETWEEN_FAULTS)
            random.choice(faults)()
        # Few members that take their time would not come to the end of what there is.
        for _ in range(2):
            load.share(GROUP, is_client=True, is_calm=True)
        found = load.finish()
        progress = load.progress
    assert not found, "\n".join([f"round {done.rounds}, see {home}", *map(str, found)])
    return Rounds(
        done.rounds + 1,
        done.faults + FAULTS_A_ROUND,
        done.settlements + progress["settle"],
        done.scheduled + progress["schedule"],
    )
