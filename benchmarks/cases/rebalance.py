"""Rebalances: from the moment at which a member comes or goes until every member has its new partitions."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import librdkafka_group, rebalance
from benchmarks.loads.members import GroupPlan
from benchmarks.loads.rebalance import Rebalance
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic

TOPIC, GROUP = "rebalance", "benchmark"
PARTITIONS_PER_MEMBER = 2
PARTITIONS_MIN = 12
# At most a thousand heartbeats a second: with shorter intervals their cost would dominate.
INTERVAL_MS_MIN, INTERVAL_MS_PER_MEMBER = 20, 1
SESSION_MS_MIN, SESSION_MS_PER_MEMBER = 2000, 10
LIBRDKAFKA_MEMBERS = 10
# A classic librdkafka consumer that has just joined and must join again waits up to 2 s before it does. So the first
# rebalance waits until all members are there.
LIBRDKAFKA_DELAY_MS = 300


def _settings(interval_ms: str, session_ms: str, delay_ms: int) -> Mapping[str, str]:
    return {
        "group.initial.rebalance.delay.ms": str(delay_ms),
        "group.min.session.timeout.ms": session_ms,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.heartbeat.interval.ms": interval_ms,
        "group.consumer.min.heartbeat.interval.ms": interval_ms,
    }


_recorded = partial(
    _settings,
    f"{INTERVAL_MS_PER_MEMBER} per member, at least {INTERVAL_MS_MIN}; classic members do the same",
    f"{SESSION_MS_PER_MEMBER} per member, at least {SESSION_MS_MIN}; classic members do the same",
)


def _start(system: System, directory: Path, members: int, delay_ms: int) -> tuple[BrokerProcess, GroupPlan]:
    """A broker and a topic for a group of this size."""
    interval_ms = max(INTERVAL_MS_MIN, INTERVAL_MS_PER_MEMBER * members)
    session_ms = max(SESSION_MS_MIN, SESSION_MS_PER_MEMBER * members)
    partitions = max(PARTITIONS_MIN, PARTITIONS_PER_MEMBER * members)
    directory.mkdir()
    broker = system.start(directory, _settings(str(interval_ms), str(session_ms), delay_ms))
    create_topic(broker.address, TOPIC, partitions, system.topic_settings(Flush.OS))
    return broker, GroupPlan(broker.address, GROUP, TOPIC, partitions, interval_ms, session_ms)


def _raw(protocol: str, system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    for members in scale.group_members:
        broker, plan = _start(system, directory / str(members), members, delay_ms=0)
        with broker:
            load = partial(rebalance.rebalance, plan=plan, protocol=protocol, members=members)
            measured = run(broker, partial(load, processes=broker.processes)).outcomes[0]
        for each in measured:
            yield from _figures(f"{members} members: {each.phase}", each, members)
            if protocol == "consumer" and each.phase == "one joins":
                yield Figure(f"{members} members: {each.phase}: never revoked", "%", each.kept_share * 100)
                name = f"{members} members: {each.phase}: longest time between heartbeats answered"
                yield Figure(name, "ms", each.longest_gap_s * 1000)


def _figures(name: str, measured: Rebalance, members: int) -> Iterator[Figure]:
    yield Figure(name, "ms", measured.seconds * 1000)
    yield Figure(f"{name}: of it until heartbeats were due", "ms", measured.waited_s * 1000)
    yield Figure(f"{name}: broker CPU", "ms/member", measured.broker_s * 1000 / members)


def _librdkafka(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    members = min(LIBRDKAFKA_MEMBERS, max(scale.group_members))
    for protocol in rebalance.KINDS:
        broker, plan = _start(system, directory / protocol, members, LIBRDKAFKA_DELAY_MS)
        with broker:
            load = partial(librdkafka_group.rebalance, plan=plan, protocol=protocol, members=members)
            measured = run(broker, load).outcomes[0]
        for phase, seconds in measured.items():
            yield Figure(f"{protocol}, {members} members: {phase}", "ms", seconds * 1000)


REBALANCE_CLASSIC = Case(
    "rebalance-classic",
    "classic members on plain sockets, range assignor (all is revoked), 2 partitions per member and at least 12",
    partial(_raw, "classic"),
    _recorded(0),
)
REBALANCE_CONSUMER = Case(
    "rebalance-consumer",
    "KIP-848 members on plain sockets, uniform assignor, 2 partitions per member and at least 12",
    partial(_raw, "consumer"),
    _recorded(0),
)
REBALANCE_LIBRDKAFKA = Case(
    "rebalance-librdkafka",
    "the same with librdkafka consumers, all in one process; classic groups wait 300 ms for their first members",
    _librdkafka,
    _recorded(LIBRDKAFKA_DELAY_MS),
)
