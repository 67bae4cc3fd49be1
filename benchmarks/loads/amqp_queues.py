"""RabbitMQ's queues: durable, persistent messages with publisher confirms, and one basic.ack for each delivery."""

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from benchmarks.clients import Outcome
from benchmarks.loads import queues
from benchmarks.loads.amqp import ACK, BODY, CHANNEL, DELIVER, METHOD, Connection, method_of
from benchmarks.loads.queues import TAKEN_MAX
from benchmarks.loads.streams import BLOCK_RECORDS, publish_blocks
from benchmarks.loads.values import values

PERSISTENT = 2
CONSUMER = "consumer"

# Behind the method: the tag, and whether it stands for all before it.
_CONFIRMED = struct.Struct(">QB")
_TAG = struct.Struct(">Q")
_METHOD_SIZE = 4


def create(address: str, queue: str, settings: Mapping[str, str]) -> None:
    with Connection(address) as connection:
        _declare(connection, queue, settings)


def publish(ready: Callable[[], None], address: str, queue: str, records: int, record_bytes: int) -> Outcome:
    block = b"".join(_published(queue, value) for value in values(record_bytes, BLOCK_RECORDS))
    with Connection(address) as connection:
        confirms = Confirms(connection)
        return publish_blocks(ready, connection.socket, block, records, record_bytes, confirms.receive)


def publish_at_rate(ready: Callable[[], None], address: str, queue: str, rate: int, seconds: float) -> Outcome:
    with Connection(address) as connection:
        confirms = Confirms(connection)
        return queues.publish_at_rate(
            ready, connection.socket, lambda value: _published(queue, value), rate, seconds, confirms.receive
        )


@contextmanager
def open_consumer(address: str, queue: str, consumers: int) -> Generator["_Consumer"]:  # noqa: ARG001 (nobody joins)
    with Connection(address) as connection:
        connection.call(commands.Basic.Qos(prefetch_count=TAKEN_MAX), commands.Basic.QosOk)
        connection.call(commands.Basic.Consume(queue=queue, consumer_tag=CONSUMER), commands.Basic.ConsumeOk)
        yield _Consumer(connection)


class Confirms:
    """Counts confirms, which come for one message or for all up to it, and in any order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Every tag below this one is confirmed, and so are these above.
        self._first = 1
        self._later: set[int] = set()
        connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    def receive(self) -> int:
        return sum(self._count(payload) for _, payload in self._connection.received())

    def _count(self, payload: bytes) -> int:
        if method_of(payload) != ACK:
            raise RuntimeError(f"the server sent {payload!r} instead of a confirm")
        tag, is_multiple = _CONFIRMED.unpack_from(payload, _METHOD_SIZE)
        if not is_multiple:
            self._later.add(tag)
            return 1
        known = {each for each in self._later if each <= tag}
        newly = tag + 1 - self._first - len(known)
        self._later -= known
        self._first = tag + 1
        return newly


class _Consumer:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Of deliveries; the last ones may be without their bodies yet.
        self._tags: list[int] = []
        self._received = 0

    def receive(self) -> Sequence[bytes]:
        received: list[bytes] = []
        for kind, payload in self._connection.received():
            if kind == METHOD:
                if method_of(payload) != DELIVER:
                    raise RuntimeError(f"the server sent {payload!r} instead of a delivery")
                # Behind the consumer's tag, a short string.
                [tag] = _TAG.unpack_from(payload, _METHOD_SIZE + 1 + payload[_METHOD_SIZE])
                self._tags.append(tag)
            elif kind == BODY:
                received.append(payload)
        self._received = len(received)
        return received

    def acknowledge(self) -> None:
        tags, self._tags = self._tags[: self._received], self._tags[self._received :]
        self._connection.socket.sendall(b"".join(frame.marshal(commands.Basic.Ack(tag), CHANNEL) for tag in tags))

    def settle(self) -> None:
        """The queue takes what a channel tells it in order, and answers this one itself. The consumer gets no more."""
        self._connection.call(commands.Basic.Cancel(CONSUMER), commands.Basic.CancelOk)


def _declare(connection: Connection, queue: str, settings: Mapping[str, str]) -> None:
    request = commands.Queue.Declare(queue=queue, durable=True, arguments={**settings})
    connection.call(request, commands.Queue.DeclareOk)


def _published(queue: str, value: bytes) -> bytes:
    properties = commands.Basic.Properties(delivery_mode=PERSISTENT)
    parts = (
        commands.Basic.Publish(exchange="", routing_key=queue),
        ContentHeader(body_size=len(value), properties=properties),
        ContentBody(value),
    )
    return b"".join(frame.marshal(part, CHANNEL) for part in parts)
