"""Groups at work: the rate of commits and heartbeats, and how soon a restarted broker has loaded them."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.clients import Outcome, Run, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import frames, group_requests, offsets
from benchmarks.loads.members import GroupPlan
from benchmarks.loads.rebalance import KINDS, find_coordinator
from benchmarks.processes import cpu_seconds, resident_bytes
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic

TOPIC = "groups"
CONNECTIONS = 64
PARTITIONS_PER_GROUP = 10
# Each commit overwrites the one before, so that most of the log is superseded.
COMMITS_PER_PARTITION = 5
RELOAD_TIMEOUT_S = 60.0
INITIAL_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def _requests(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    for flush in (Flush.OS, Flush.ACK):
        where = directory / flush
        where.mkdir()
        with system.start(where, system.broker_settings(flush)) as broker:
            create_topic(broker.address, TOPIC, 1, {})
            load = partial(group_requests.commit, topic=TOPIC, groups=CONNECTIONS, seconds=scale.seconds)
            measured = run(broker, partial(load, address=broker.address))
        yield from _rate(f"commits, flush={flush}", "commit", measured)
    for protocol in KINDS:
        where = directory / protocol
        where.mkdir()
        with system.start(where, INITIAL_DELAY) as broker:
            create_topic(broker.address, TOPIC, CONNECTIONS, {})
            plan = GroupPlan(
                broker.address, "benchmark", TOPIC, CONNECTIONS, heartbeat_interval_ms=100, session_timeout_ms=10_000
            )
            load = partial(group_requests.heartbeat, plan=plan, protocol=protocol, members=CONNECTIONS)
            measured = run(broker, partial(load, seconds=scale.seconds))
        yield from _rate(f"heartbeats, {protocol}", "heartbeat", measured)


def _rate(name: str, unit: str, measured: Run[Outcome]) -> Iterator[Figure]:
    outcome = measured.outcomes[0]
    yield explained(measured, name, f"{unit}s/s", outcome.records_per_second)
    yield Figure(f"{name}: broker CPU", f"us/{unit}", measured.broker.total_s / outcome.records * 1e6)


def _reload(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    names = [f"group-{index}" for index in range(scale.groups)]
    broker = system.start(directory)
    try:
        create_topic(broker.address, TOPIC, PARTITIONS_PER_GROUP, {})
        yield Figure("memory before", "MB", resident_bytes(broker.processes) / 1e6)
        _commit(broker.address, names)
        yield Figure("memory with all groups", "MB", resident_bytes(broker.processes) / 1e6)
    finally:
        broker.kill()
    with system.start(directory) as killed:
        yield from _reloaded("after kill -9", killed, names)
    with system.start(directory) as stopped:
        yield from _reloaded("after a clean stop", stopped, names)


def _commit(address: str, names: Sequence[str]) -> None:
    find_coordinator(address, names)
    with frames.connect(address) as connection:
        for offset in range(COMMITS_PER_PARTITION):
            frames_of_all = [offsets.commit_frame(name, TOPIC, range(PARTITIONS_PER_GROUP), offset) for name in names]
            offsets.commit_all(connection, frames_of_all)


def _reloaded(name: str, broker: BrokerProcess, names: Sequence[str]) -> Iterator[Figure]:
    """Time from the start of the process until the offsets of every group have been fetched."""
    ready = time.monotonic()
    with frames.connect(broker.address) as connection:
        found = offsets.fetch_all(connection, names, ready + RELOAD_TIMEOUT_S)
    answered = time.monotonic()
    expected = dict.fromkeys(range(PARTITIONS_PER_GROUP), COMMITS_PER_PARTITION - 1)
    if any(found[each] != expected for each in names):
        raise RuntimeError(f"{name}, not all that was committed is there")
    yield Figure(name, "ms", (answered - broker.started) * 1000)
    yield Figure(f"{name}: of it since the broker was ready", "ms", (answered - ready) * 1000)
    yield Figure(f"{name}: broker CPU", "ms", cpu_seconds(broker.processes) * 1000)
    yield Figure(f"{name}: memory", "MB", resident_bytes(broker.processes) / 1e6)


OFFSET_COMMIT = Case(
    "offset-commit",
    f"commits of one partition, {CONNECTIONS} groups with a connection each; heartbeats of {CONNECTIONS} members of a "
    "group; each connection waits for its answer",
    _requests,
    INITIAL_DELAY,
)
GROUP_RELOAD = Case(
    "group-reload",
    "1,000 groups with 10,000 offsets, each committed 5 times, from process start to the last group's OffsetFetch",
    _reload,
)
