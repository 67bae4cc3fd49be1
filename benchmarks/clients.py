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

from benchmarks.broker_process import BrokerProcess
from benchmarks.figures import Figure
from benchmarks.limits import Shares, limited_by
from benchmarks.processes import MachineMeter, Meter, Resources, Usage, resident_bytes, written_bytes

# Children are forked from a server that has imported everything and done nothing: they start at once and clean.
PROCESSES = multiprocessing.get_context("forkserver")
PREPARE_TIMEOUT_S = 60.0
LOAD_TIMEOUT_S = 180.0
CORES = os.cpu_count() or 1

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
    """Records and bytes that a bulk load moved, and in what time."""

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
    resident_bytes: int
    """Of the broker, at the end."""
    written_bytes: int
    """By the broker, to files."""


def run(broker: BrokerProcess, *loads: Load[T], timeout_s: float = LOAD_TIMEOUT_S) -> Run[T]:
    """Run all loads at once; the broker's CPU time is counted from their common start to the end of the last."""
    barrier = PROCESSES.Barrier(len(loads) + 1)
    receivers: list[Connection] = []
    for load in loads:
        receiver, sender = PROCESSES.Pipe(duplex=False)
        PROCESSES.Process(target=_child, args=(load, barrier, sender), daemon=True).start()
        # Close our copy: the child's is then the only one, so that its death shows as end of file.
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
    written_before = written_bytes(broker.processes)
    outcomes: list[T] = [_receive(receiver, timeout_s) for receiver in receivers]
    return Run(
        outcomes,
        meter.read(),
        machine.busy_share(),
        resident_bytes(broker.processes),
        written_bytes(broker.processes) - written_before,
    )


def explained(run: Run[Timed], name: str, unit: str, value: float) -> Figure:
    """A figure with its limiting side and the resources that the run used."""
    seconds = max(outcome.seconds for outcome in run.outcomes)
    client_s = sum(outcome.client.total_s for outcome in run.outcomes)
    shares = Shares(
        client=client_s / seconds,
        client_busiest_thread=max(outcome.client.busiest_s for outcome in run.outcomes) / seconds,
        broker=run.broker.total_s / seconds,
        broker_busiest_thread=run.broker.busiest_s / seconds,
        machine=run.machine_share * CORES,
        cores=CORES,
    )
    resources = Resources(
        seconds, run.broker.user_s, run.broker.system_s, run.resident_bytes, run.written_bytes, client_s
    )
    return Figure(name, unit, value, limited_by(shares), str(shares), resources)


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
