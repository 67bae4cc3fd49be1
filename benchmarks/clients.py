"""Runs loads in processes of their own, so that each one's CPU time is its own and the harness is idle meanwhile.

A load prepares, calls `ready` to start together with the others, works, and ends by its own deadline.
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError
from typing import Any, Generic, Protocol, TypeVar

from benchmarks.figures import Figure
from benchmarks.processes import MachineMeter, Meter, Usage
from benchmarks.systems import BrokerProcess

# Children are forked from a server that has imported everything and done nothing: they start at once and clean.
PROCESSES = multiprocessing.get_context("forkserver")
PREPARE_TIMEOUT_S = 60.0
LOAD_TIMEOUT_S = 180.0
CORES = os.cpu_count() or 1
# A thread, or a machine, that is at work for this share of the time is taken to be the limit.
BOUND_SHARE = 0.9

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Load = Callable[[Callable[[], None]], T]


class Timed(Protocol):
    @property
    def seconds(self) -> float: ...

    @property
    def client(self) -> Usage: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load of many records did."""

    seconds: float
    records: int
    bytes: int
    client: Usage

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e6

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


@dataclass(frozen=True, slots=True)
class Run(Generic[T_co]):
    outcomes: Sequence[T_co]
    broker: Usage
    machine_share: float


def run(broker: BrokerProcess, *loads: Load[T], timeout_s: float = LOAD_TIMEOUT_S) -> Run[T]:
    """All loads at once; the broker's CPU time is that between their common start and the end of the last."""
    barrier = PROCESSES.Barrier(len(loads) + 1)
    receivers: list[Connection] = []
    for load in loads:
        receiver, sender = PROCESSES.Pipe(duplex=False)
        PROCESSES.Process(target=_child, args=(load, barrier, sender), daemon=True).start()
        # The child's copy is the only one, so that its death is seen as the end of the pipe.
        sender.close()
        receivers.append(receiver)
    try:
        barrier.wait(PREPARE_TIMEOUT_S)
    except BrokenBarrierError:
        for receiver in receivers:
            _receive(receiver, 1.0)
        raise
    machine = MachineMeter()
    meter = Meter(broker.processes)
    outcomes: list[T] = [_receive(receiver, timeout_s) for receiver in receivers]
    return Run(outcomes, meter.read(), machine.busy_share())


def explained(run: Run[Timed], name: str, unit: str, value: float) -> Figure:
    """A figure that says what kept it from being better: the side with a thread that never rested, or the cores."""
    seconds = max(outcome.seconds for outcome in run.outcomes)
    client = sum(outcome.client.total_s for outcome in run.outcomes) / seconds
    broker = run.broker.total_s / seconds
    others = max(0.0, run.machine_share * CORES - client - broker)
    limit = ""
    if max(outcome.client.busiest_s for outcome in run.outcomes) / seconds >= BOUND_SHARE:
        limit = "client"
    elif run.broker.busiest_s / seconds >= BOUND_SHARE:
        limit = "broker"
    elif run.machine_share >= BOUND_SHARE:
        limit = "cores"
    note = f"in percent of one core: client {client:.0%}, broker {broker:.0%}, others {others:.0%}"
    return Figure(name, unit, value, limit, note)


def _child(load: Load[object], barrier: Barrier, sender: Connection) -> None:
    try:
        sender.send((True, load(lambda: _wait(barrier))))
    except BaseException:
        sender.send((False, traceback.format_exc()))
        barrier.abort()


def _wait(barrier: Barrier) -> None:
    barrier.wait(PREPARE_TIMEOUT_S)


def _receive(receiver: Connection, timeout_s: float) -> Any:
    with receiver:
        if not receiver.poll(timeout_s):
            raise TimeoutError(f"a load said nothing for {timeout_s:.0f} s")
        succeeded, result = receiver.recv()
    if not succeeded:
        raise RuntimeError(f"a load failed:\n{result}")
    return result
