"""Frames out of a byte stream, however it is cut; and memory that follows what really arrived."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import ProtocolError
from headwater.protocol.wire.framing import RETAINED_BYTES_MAX, FrameReader

IDLE = 64


class Budget:
    """A memory budget that counts its use."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit = limit
        self.used = 0
        self.scarce = False

    def take(self, size: int, taker: object) -> bool:
        assert size >= 0
        if self.used + size > self.limit:
            return False
        self.used += size
        return True

    def give_back(self, size: int, taker: object) -> None:
        assert 0 <= size <= self.used
        self.used -= size

    def is_scarce(self) -> bool:
        return self.scarce


def reader(budget: Budget | None = None, *, frame_bytes_max: int = 1 << 24) -> FrameReader:
    return FrameReader(budget or Budget(), frame_bytes_max=frame_bytes_max, idle_bytes=IDLE)


def stream_of(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def feed(frames: FrameReader, data: bytes) -> list[bytes]:
    """Gives the reader all bytes, as much at a time as it has room for; gives the frames that came out."""
    found: list[bytes] = []
    while data:
        space = frames.space()
        assert space is not None
        assert len(space) > 0, "no room would look like the end of the stream"
        count = min(len(space), len(data))
        space[:count] = data[:count]
        space.release()
        data = data[count:]
        frames.received(count)
        while (frame := frames.next_frame()) is not None:
            found.append(bytes(frame))
    return found


frame_lists = st.lists(
    st.one_of(
        st.binary(max_size=2 * IDLE),
        st.integers(0, 5000).map(lambda size: bytes(range(256)) * (size // 256) + bytes(size % 256)),
    ),
    max_size=20,
)


@settings(max_examples=200)
@given(frame_lists, st.data())
def test_any_split_of_a_stream_gives_the_same_frames(sent: list[bytes], data: st.DataObject) -> None:
    stream = stream_of(*sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    budget = Budget()
    frames = reader(budget)
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        budget.scarce = data.draw(st.booleans())
        if data.draw(st.booleans()):
            frames.relax()
        found += feed(frames, stream[start:end])
        assert budget.used >= frames.capacity - IDLE
    assert found == sent
    assert frames.partial_bytes == 0
    assert frames.frame_count == len(sent)
    frames.relax()
    assert budget.used == 0
    assert frames.capacity == IDLE


@settings(max_examples=100)
@given(frame_lists, st.integers(0, 5000))
def test_memory_is_released_at_any_end_of_the_stream(sent: list[bytes], end: int) -> None:
    budget = Budget()
    frames = reader(budget)
    feed(frames, stream_of(*sent)[:end])
    frames.close()
    assert (budget.used, frames.capacity, frames.partial_bytes) == (0, 0, 0)


@settings(max_examples=50)
@given(st.integers(IDLE, 1 << 22), st.integers(1, 3000))
def test_the_buffer_grows_with_arrived_and_not_with_announced_bytes(announced: int, sent: int) -> None:
    frames = reader()
    data = announced.to_bytes(4, "big") + bytes(min(sent, announced))
    feed(frames, data)
    assert frames.capacity <= max(IDLE, 2 * len(data))


def test_one_read_after_another_fills_a_large_frame_and_stops_at_its_end() -> None:
    frames = reader()
    large = bytes(RETAINED_BYTES_MAX)
    data = stream_of(large, b"next")
    found: list[bytes] = []
    while len(found) < 2:
        space = frames.space()
        assert space is not None
        count = min(len(space), len(data))
        space[:count], data = data[:count], data[count:]
        space.release()
        frames.received(count)
        while (frame := frames.next_frame()) is not None:
            found.append(bytes(frame))
            assert frames.partial_bytes == 0
    assert found == [large, b"next"]


def test_frames_in_flight_together_are_read_together_wherever_a_read_ends() -> None:
    """Five requests of 100 KB in flight, as producers have them, are one turn's work."""
    frames, sent = reader(), stream_of(*[bytes(100_000)] * 50)
    reads: list[int] = []
    position = 0
    while position < len(sent):
        space = frames.space()
        assert space is not None
        count = min(len(space), 500_000, len(sent) - position)
        space[:count] = sent[position : position + count]
        space.release()
        position += count
        frames.received(count)
        reads.append(sum(1 for _ in iter(frames.next_frame, None)))
    assert sum(reads) == 50
    assert max(reads) == 5
    assert reads.count(5) >= 5


def test_a_busy_stream_gets_a_larger_buffer_and_a_quiet_one_a_small_one() -> None:
    budget = Budget()
    frames = reader(budget)
    while frames.capacity < RETAINED_BYTES_MAX:
        space = frames.space()
        assert space is not None
        # Whole frames fill it to its end: the socket had more than the buffer could take.
        space[:] = stream_of(bytes(60)) * (len(space) // 64)
        filled = len(space)
        space.release()
        frames.received(filled)
        while frames.next_frame() is not None:
            pass
    frames.space()
    assert frames.capacity == RETAINED_BYTES_MAX
    assert budget.used == RETAINED_BYTES_MAX - IDLE
    frames.relax()
    assert (frames.capacity, budget.used) == (IDLE, 0)


def test_a_large_buffer_is_kept_while_frames_need_it_unless_memory_is_scarce() -> None:
    budget = Budget()
    frames = reader(budget)
    large = stream_of(bytes(3 * RETAINED_BYTES_MAX))
    feed(frames, large)
    capacity, used = frames.capacity, budget.used
    assert capacity > RETAINED_BYTES_MAX
    feed(frames, large)
    assert (frames.capacity, budget.used) == (capacity, used), "the same again finds its memory there"

    for _ in range(2):
        feed(frames, stream_of(b"small"))
    assert (frames.capacity, budget.used) == (IDLE, 0)

    feed(frames, stream_of(bytes(1000)))
    frames.space()
    assert frames.capacity == 1024, "frames of about that size may follow"
    budget.scarce = True
    frames.space()
    assert (frames.capacity, budget.used) == (IDLE, 0)


def test_a_frame_waits_for_memory_and_a_begun_frame_can_be_finished() -> None:
    budget = Budget(limit=2048)
    first, second = reader(budget), reader(budget)
    assert feed(first, stream_of(bytes(2000))[:1500]) == []
    feed(second, stream_of(bytes(1000))[:128])
    assert second.space() is None, "there is no room for it now"
    assert budget.used <= 2048

    assert feed(first, stream_of(bytes(2000))[1500:]) == [bytes(2000)]
    first.relax()
    assert feed(second, stream_of(bytes(1000))[128:]) == [bytes(1000)]
    second.close()
    first.close()
    assert budget.used == 0


def test_a_busy_stream_makes_do_with_a_small_buffer_where_there_is_no_memory() -> None:
    frames = reader(Budget(limit=0))
    sent = [bytes([number]) * (IDLE - 4) for number in range(50)]
    assert feed(frames, stream_of(*sent)) == sent
    assert frames.capacity == IDLE


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_frame_of_an_impossible_size_is_refused_before_it_arrives(size: int) -> None:
    frames = reader(frame_bytes_max=1000)
    with pytest.raises(ProtocolError, match=str(size)):
        feed(frames, size.to_bytes(4, "big", signed=True))
    assert frames.capacity == IDLE


def test_the_largest_frame_and_the_smallest_are_accepted() -> None:
    frames = reader(frame_bytes_max=1000)
    assert feed(frames, stream_of(bytes(1000), b"")) == [bytes(1000), b""]


def test_a_frame_stays_valid_when_its_buffer_is_given_back() -> None:
    frames = reader()
    data = stream_of(b"precious" * 100)
    feed(frames, data[:-1])
    last = frames.space()
    assert last is not None
    last[:1] = data[-1:]
    last.release()
    frames.received(1)
    frame = frames.next_frame()
    assert frame is not None
    frames.relax()
    frames.close()
    assert bytes(frame) == b"precious" * 100
