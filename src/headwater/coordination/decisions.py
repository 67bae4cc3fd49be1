"""What a machine decides: the events that change it, and the answers that leave once these events are on disk.

Machines are pure: time comes in as `Now`, a waiting client as a `Ticket`; nothing here knows a clock or a socket.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, NewType, TypeVar

# Stands for one request that waits for its answer. The driver issues tickets and keeps the requests.
Ticket = NewType("Ticket", int)

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Now(NamedTuple):
    # For timestamps that are stored or shown.
    wall_ms: int
    # For timeouts, because wall time may jump.
    monotonic_ms: int


# Events of these types are applied but never written: a restart may forget them, as it ends all connections.
VOLATILE_TYPES: set[type] = set()

EventT = TypeVar("EventT", bound=type)


def volatile(event_type: EventT) -> EventT:
    """Class decorator of volatile events. (No base class: a NamedTuple, which has none, is made in an eighth of a
    dataclass's time.)"""
    VOLATILE_TYPES.add(event_type)
    return event_type


class Waiting:
    """The result of a command that is answered by a later decision, under its ticket."""


WAITING = Waiting()


class Answer(NamedTuple):
    ticket: Ticket
    result: object


class Decision(NamedTuple, Generic[ResultT_co]):
    events: Sequence[object]
    result: ResultT_co
    # For requests that waited.
    answers: Sequence[Answer] = ()
    # Work for the driver once the events are on disk.
    effects: Sequence[object] = ()
