"""Targets of byte-level fuzzing: every decoder of client bytes, chosen by the first byte of the input."""

import random
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.broker.writes import large_batch
from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.errors import HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.consumer_protocol import read_assignment, read_subscription
from headwater.protocol.wire.codec import decode
from headwater.protocol.wire.framing import FrameReader
from tests.faults.hostile.forging import REQUESTS, Forger
from tests.faults.hostile.fuzzing import read
from tests.support.kafka.raw_client import NOW_MS

UNFOLDED_BYTES_MAX = 1 << 20
_BROKER = BrokerConfig.from_values({"headwater.batch.decompressed.bytes.max": str(UNFOLDED_BYTES_MAX)})
CORPUS_FRAMES = 3


class _Unlimited:
    """A memory budget without limit: the limits of frames are tested elsewhere."""

    def take(self, size: int, taker: object) -> bool:
        return True

    def give_back(self, size: int, taker: object) -> None:
        pass

    def is_scarce(self) -> bool:
        return False


def _stream(data: bytes) -> None:
    frames = FrameReader(_Unlimited(), frame_bytes_max=BrokerConfig().socket_request_max_bytes, idle_bytes=64)
    while data:
        space = frames.space()
        assert space is not None
        taken = data[: len(space)]
        space[: len(taken)] = taken
        space.release()
        frames.received(len(taken))
        data = data[len(taken) :]
        while (frame := frames.next_frame()) is not None:
            read(bytes(frame))


def _sealed(data: bytes) -> bytearray:
    batch = bytearray(data)
    if len(batch) >= batches.HEADER_SIZE:
        struct.pack_into(">I", batch, 17, batches.crc32c(bytes(batch[21:])))
    return batch


def _batch(data: bytes) -> None:
    """A batch with a valid checksum; otherwise no input would get past the check."""
    batch = _sealed(data)
    header = batches.read_header(batch)
    batches.verify_produced(batch, header)
    batches.read_records(batch, header, UNFOLDED_BYTES_MAX)


def _large_batch(data: bytes) -> None:
    """As a broker checks a batch in a thread."""
    batch = _sealed(data)
    header = batches.read_header(batch)
    batches.verify_produced(batch, header)
    large_batch.check(memoryview(batch), TopicConfig(), _BROKER, NOW_MS)


TARGETS: Sequence[Callable[[bytes], object]] = (read, _stream, _batch, read_subscription, read_assignment, _large_batch)


def feed(data: bytes) -> None:
    """Feed the input to the target of its first byte, which must either read or refuse it in the expected way."""
    if not data:
        return
    with suppress(HeadwaterError):
        TARGETS[data[0] % len(TARGETS)](data[1:])


def write_corpus(directory: Path, seed: int) -> None:
    """Write an initial corpus: honest frames of every API and version."""
    forger = Forger(random.Random(seed))
    for request in REQUESTS:
        for version in request.versions:
            for number in range(CORPUS_FRAMES):
                content = forger.lying_frame(request, version, 0.0, 0).content
                (directory / f"{request.__name__}-{version}-{number}").write_bytes(b"\x00" + content)


def instrument_readers(instrument: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
    """Readers are compiled at run time, where an instrumented import does not see them."""
    forger = Forger(random.Random(0))
    for request in REQUESTS:
        for version in request.versions:
            decode(request, version, forger.honest_body(request, version))
            request.__readers__[version] = instrument(request.__readers__[version])
