"""Forged frames against the decoders alone and against a whole broker, repeatable from a seed."""

import random
import socket
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from headwater.broker.catalog.local_metadata import CATALOG
from headwater.errors import ProtocolError
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest
from headwater.protocol.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.topics.delete_topics import DeleteTopicsResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.wire.codec import Request, Response, decode, read_request_header, read_response_header
from tests.faults.hostile.forging import BY_KEY, REQUESTS, Forger, Frame, Vocabulary
from tests.faults.hostile.watching import MIB, SIDE_TOPIC, Bystander, WatchedBroker, watched
from tests.support.kafka.raw_client import RawClient

FLEXIBLE_FROM = {key: request.flexible_from for key, request in BY_KEY.items()}
# A byte may become an element, and an element an object with fields. No frame may cost more than that.
ALLOCATED_PER_BYTE = 256
ALLOCATED_FREE = 16 * 1024
ANSWER_TIMEOUT_S = 30
MEMORY_GROWTH_MAX = 96 * MIB

# Requests that wait for other requests even when honest.
WAIT_MS_MAX = 50
TOPICS = ("orders", "payments")
WORDS = (*TOPICS, "group", "consumer", "range", "uniform", "member", "retention.ms", "cleanup.policy", "compact", "1")


class Violation(AssertionError):
    """A violation; its message says how to reproduce it."""


class Figures(NamedTuple):
    decoded: int
    answered: int
    closed: int

    def __add__(self, other: tuple[int, ...]) -> "Figures":  # pyright: ignore[reportIncompatibleMethodOverride]
        return Figures(*(mine + more for mine, more in zip(self, other, strict=True)))


NOTHING = Figures(0, 0, 0)


def forged(
    request: type[Request], seed: int | str, count: int, vocabulary: Vocabulary | None = None
) -> Iterator[Frame]:
    """This many frames of an API, over all of its versions in turn."""
    forger = Forger(random.Random(f"{seed} {request.__name__}"), vocabulary)
    versions = cycle(request.versions)
    for _ in range(count):
        yield forger.frame(request, next(versions))


# -- the decoders alone


def read(content: bytes) -> Request | None:
    """Decode a frame as the broker does; None for an API or version that it does not serve."""
    header = read_request_header(content, FLEXIBLE_FROM)
    request = BY_KEY.get(header.api_key)
    if request is None or header.api_version not in request.versions:
        return None
    return decode(request, header.api_version, content, header.body_position, exact=False)


def fuzz_decoder(request: type[Request], seed: int | str, count: int, *, measure_every: int = 20) -> Figures:
    """Every frame is read or refused, and takes no more memory than its bytes justify."""
    decoded = 0
    for number, frame in enumerate(forged(request, seed, count)):
        try:
            if number % measure_every:
                read(frame.content)
            else:
                _read_measured(frame.content)
        except ProtocolError:
            pass
        except Exception as error:
            raise Violation(_repeat(frame, seed, number)) from error
        decoded += 1
    return Figures(decoded, 0, 0)


def _read_measured(content: bytes) -> None:
    refused: ProtocolError | None = None
    try:
        read(content)  # Code compiled or imported at the first request must not be counted.
    except ProtocolError as error:
        refused = error
    tracemalloc.start()
    try:
        kept = None if refused is not None else read(content)
        allocated = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    assert allocated <= ALLOCATED_FREE + ALLOCATED_PER_BYTE * len(content), f"{len(content)} bytes took {allocated}"


def _repeat(frame: Frame, seed: int | str, number: int) -> str:
    return f"{frame.request.__name__} v{frame.version}, seed {seed}, case {number}: {frame.content.hex()}"


# -- a whole broker


@dataclass(slots=True)
class Attack:
    """Frames sent to a broker, one connection each, and their effects according to the broker's responses."""

    broker: WatchedBroker
    topics: set[str] = field(default_factory=lambda: {SIDE_TOPIC})
    identifiers: dict[str, UUID] = field(default_factory=dict[str, UUID])
    figures: Figures = NOTHING

    def run(self, request: type[Request], seed: int | str, count: int) -> None:
        self._create_topics()
        vocabulary = Vocabulary(words=WORDS, identifiers=list(self.identifiers.values()), wait_ms_max=WAIT_MS_MAX)
        for number, frame in enumerate(forged(request, seed, count, vocabulary)):
            try:
                self._send(frame.content)
            except Exception as error:
                raise Violation(_repeat(frame, seed, number)) from error

    def _create_topics(self) -> None:
        """Create the topics that requests name, because earlier requests may have deleted them."""
        with RawClient(self.broker) as client:
            for name in {*TOPICS} - self.topics:
                self.identifiers[name] = client.create(name)
        self.topics.update(TOPICS)

    def _send(self, content: bytes) -> None:
        with RawClient(self.broker) as client:
            client.socket.settimeout(ANSWER_TIMEOUT_S)
            client.send_bytes(len(content).to_bytes(4, "big") + content)
            # After end of input the broker answers or closes, even if a response could take long.
            with suppress(OSError):
                client.socket.shutdown(socket.SHUT_WR)
            answer = _everything(client.socket)
        if not answer:
            self.figures += (0, 0, 1)
            return
        size = int.from_bytes(answer[:4], "big")
        assert size == len(answer) - 4, "more or less than one answer"
        self._check_answer(content, answer[4:])
        self.figures += (0, 1, 0)

    def _check_answer(self, content: bytes, answer: bytes) -> None:
        header = read_request_header(content, FLEXIBLE_FROM)
        request, version = BY_KEY[header.api_key], header.api_version
        if request is ApiVersionsRequest and version not in request.versions:
            version = 0
        response = response_of(request)
        correlation_id, position = read_response_header(answer, response, version)
        assert correlation_id == header.correlation_id
        message = decode(response, version, answer, position)
        asked = read(content)
        if isinstance(message, CreateTopicsResponse) and isinstance(asked, CreateTopicsRequest):
            created = {topic.name for topic in message.topics if not topic.error_code}
            self.topics |= set() if asked.validate_only else created
        elif isinstance(message, DeleteTopicsResponse):
            self.topics -= {topic.name or "" for topic in message.responses if not topic.error_code}

    def check_topics(self) -> None:
        """Topics in metadata and on disk match the responses; internal topics are not compared."""
        with RawClient(self.broker) as client:
            listed = client.ask(MetadataRequest(topics=None), MetadataResponse, 12).topics
        assert {topic.name for topic in listed if not topic.is_internal} == self.topics
        directories = {each.name for each in self.broker.data_directory.iterdir() if each.is_dir()}
        on_disk = {name.rpartition("-")[0] for name in directories if not name.endswith("-delete")}
        stray = on_disk - {topic.name or "" for topic in listed} - {CATALOG.topic}
        assert not stray, stray


def response_of(request: type[Request]) -> type[Response]:
    return getattr(sys.modules[request.__module__], request.__name__.replace("Request", "Response"))


def _everything(connected: socket.socket) -> bytes:
    """All bytes until the broker closes the connection."""
    data = bytearray()
    try:
        while received := connected.recv(65536):
            data += received
    except ConnectionError:
        pass
    return bytes(data)


def fuzz_broker(
    directory: Path, seed: int, count: int, deadline: float = float("inf"), *, checks_in_threads: bool
) -> Figures:
    """Send this many frames of every API, or until the deadline, while a bystander works undisturbed."""
    settings = {"headwater.batch.inline.bytes.max": "0"} if checks_in_threads else {}
    with watched(directory, settings) as broker, Bystander(broker) as bystander:
        attack = Attack(broker)
        before = broker.memory_bytes()
        for request in REQUESTS:
            if time.monotonic() >= deadline:
                break
            attack.run(request, seed, count)
            bystander.check(1)
        assert broker.memory_bytes() - before < MEMORY_GROWTH_MAX
        attack.check_topics()
    return attack.figures


# -- the long form


def fuzz(seed: int, deadline: float) -> Figures:
    """Fuzz until the deadline (of `time.monotonic`), each round with the next seed: decoders, then a new broker."""
    figures = NOTHING
    while time.monotonic() < deadline:
        for request in REQUESTS:
            if time.monotonic() < deadline:
                figures += fuzz_decoder(request, seed, 5000)
        with tempfile.TemporaryDirectory() as directory:
            figures += fuzz_broker(Path(directory), seed, 500, deadline, checks_in_threads=seed % 2 == 1)
        seed += 1
    return figures
