"""What a machine decides: the events that change it, and who is answered with what once they are on disk.

Pure, as every machine: time comes in as `Now`, a waiting client as a `Ticket`; nothing here knows a clock or a socket.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, NewType, TypeVar

# Stands for one request that waits for its answer; the driver gives it out and keeps the request.
Ticket = NewType("Ticket", int)

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Now(NamedTuple):
    # For what is stored or shown.
    wall_ms: int
    # For time-outs, because wall time may jump.
    monotonic_ms: int


@dataclass(frozen=True, slots=True)
class Volatile:
    """Base of events that are applied and never written: a restart forgets them, as it ends every connection."""


class Waiting:
    """The result of a command whose answer comes with a later decision, under its ticket."""


WAITING = Waiting()


class Answer(NamedTuple):
    ticket: Ticket
    result: object


class Decision(NamedTuple, Generic[ResultT_co]):
    events: Sequence[object]
    result: ResultT_co
    # Requests that waited and now have their answer.
    answers: Sequence[Answer] = ()
    # What the driver is to do once the events are on disk.
    effects: Sequence[object] = ()
