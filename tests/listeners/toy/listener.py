"""A minimal second protocol on the same TCP machinery: `PUT topic value` and `GET topic offset`, one per line."""

from collections.abc import Iterator, Sequence

from headwater.broker.broker import Broker
from headwater.broker.reads.fetch import PartitionFetch, PartitionRead
from headwater.broker.writes.journal import Append
from headwater.config.broker import BrokerConfig
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode, HeadwaterError, ProtocolError
from headwater.listeners.listener import Listener
from headwater.listeners.tcp.connection import Connection, Slot
from headwater.listeners.tcp.listener import TcpListener
from headwater.listeners.tcp.pool import ConnectionPool
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record

LINE_BYTES_MAX = 1024
BATCH_BYTES_MAX = 1 << 20


class Lines:
    """Newline-terminated frames in one buffer of fixed size."""

    def __init__(self) -> None:
        self.frame_count = 0
        self._buffer = bytearray(LINE_BYTES_MAX)
        self._start = self._end = 0

    @property
    def partial_bytes(self) -> int:
        return self._end - self._start

    def space(self) -> memoryview:
        held = self.partial_bytes
        self._buffer[:held] = self._buffer[self._start : self._end]
        self._start, self._end = 0, held
        return memoryview(self._buffer)[held:]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        end = self._buffer.find(b"\n", self._start, self._end)
        if end < 0:
            if self.partial_bytes == LINE_BYTES_MAX:
                raise ProtocolError(f"a line has at most {LINE_BYTES_MAX} bytes")
            return None
        line = memoryview(self._buffer)[self._start : end]
        self._start = end + 1
        self.frame_count += 1
        return line

    def relax(self) -> None:
        """The buffer is small."""

    def close(self) -> None:
        self._start = self._end = 0


class LineConversation:
    def __init__(self, broker: Broker) -> None:
        self.frames = Lines()
        self.requests_max = 128
        self._broker = broker

    def use_config(self, config: BrokerConfig) -> None:
        """No setting is about lines."""

    def end(self) -> None:
        """Nothing outlives a line."""

    def serve(self, frame: memoryview, slot: Slot) -> None:
        match bytes(frame).decode().split(" ", 2):
            case ["PUT", topic, value]:
                self._put(topic, value.encode(), slot)
            case ["GET", topic, offset]:
                self._get(topic, int(offset), slot)
            case _:
                raise ProtocolError("PUT topic value, or GET topic offset")

    def _put(self, topic: str, value: bytes, slot: Slot) -> None:
        def written(append: Append) -> None:
            _answer(slot, str(append.base_offset) if append.error is None else _refused(append.error))

        try:
            partition = self._broker.partition(topic, 0)
        except HeadwaterError as error:
            _answer(slot, _refused(error))
        else:
            now_ms = self._broker.clock.now_ms()
            self._broker.append(partition, [Record(0, now_ms, None, value)]).then(written)

    def _get(self, topic: str, offset: int, slot: Slot) -> None:
        def read(reads: Sequence[PartitionRead]) -> None:
            _answer(slot, _value(reads[0], offset))

        try:
            partition = self._broker.partition(topic, 0)
        except HeadwaterError as error:
            _answer(slot, _refused(error))
        else:
            fetches = [PartitionFetch(partition, offset, BATCH_BYTES_MAX)]
            self._broker.fetch(fetches, bytes_min=0, bytes_max=BATCH_BYTES_MAX, wait_ms=0, committed_only=True).then(
                read
            )


def _value(read: PartitionRead, offset: int) -> str:
    for header, batch in batches.iterate(read.records.read() if read.records is not None else b""):
        for record in batches.read_records(batch, header, BATCH_BYTES_MAX):
            if record.offset == offset:
                return (record.value or b"").decode()
    return f"ERROR {(read.error or ErrorCode.OFFSET_OUT_OF_RANGE).name}"


def _refused(error: HeadwaterError) -> str:
    return f"ERROR {error.code.name}"


def _answer(slot: Slot, text: str) -> None:
    slot.fill([f"{text}\n".encode()])


def toy_listeners(broker: Broker, pool: ConnectionPool) -> Iterator[Listener]:
    def converse(_connection: Connection) -> LineConversation:
        return LineConversation(broker)

    yield TcpListener("toy", Endpoint("127.0.0.1", 0), pool, converse)
