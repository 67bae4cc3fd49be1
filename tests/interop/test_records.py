"""Records of each client are read by every other client, equal cell by cell, with every compression."""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from headwater.protocol.batches.batch import iterate
from tests.interop.cells import CELLS, RECORDS
from tests.interop.clients import kcat as kcat_client
from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import COMPRESSIONS, Compression, Connect, Record

pytestmark = pytest.mark.interop

CLIENTS = ("confluent", "kcat", "java", "franz")

# Text, so that no delimiter of kcat is in it, and random, so that compression leaves it large.
LARGE = random.Random(2).randbytes(5 << 20).hex().encode()
assert len(LARGE) == 10 << 20

# 10 MiB of text, a key, and room for what surrounds them.
ROOM = {"max.message.bytes": str(11 << 20), "retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class Written:
    topic: str
    records: tuple[Record, ...]


Write = Callable[[str, Compression], Written]


@pytest.fixture(scope="session")
def write(connect: Connect, confluent: Confluent, new_topic: Callable[[str], str]) -> Write:
    """Writes the records with one client and one compression, the first time that they are asked for."""

    @cache
    def write(writer: str, compression: Compression) -> Written:
        client = connect(writer)
        records = RECORDS
        if writer == "kcat":
            records = tuple(record for record in CELLS if kcat_client.can_write(record))
        topic = new_topic(f"{writer}-{compression}")
        confluent.create_topic(topic, configs={"retention.ms": "-1"})
        offsets = client.produce(topic, records, compression=compression)
        assert offsets is None or list(offsets) == list(range(len(records)))
        return Written(topic, records)

    return write


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_a_client_reads_what_another_wrote(
    connect: Connect, confluent: Confluent, write: Write, writer: str, reader: str, compression: Compression
) -> None:
    written = write(writer, compression)

    read = connect(reader).consume(written.topic, len(written.records))

    # Where the writer's clock chose the time, the readers have to agree on it.
    reference = confluent.consume(written.topic, len(written.records))
    assert read == reference
    assert list(read) == list(range(len(written.records)))
    for found, expected in zip(read.values(), written.records, strict=True):
        assert found == (expected if expected.timestamp_ms else replace(expected, timestamp_ms=found.timestamp_ms))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_batches_are_stored_as_the_client_compressed_them(
    write: Write, data_directory: Path, writer: str, compression: Compression
) -> None:
    written = write(writer, compression)

    (segment,) = (data_directory / f"{written.topic}-0").glob("*.log")

    # librdkafka sends a batch as it is when compression would not make it smaller.
    codecs = {header.codec for header, _ in iterate(segment.read_bytes())}
    assert COMPRESSIONS.index(compression) in codecs
    assert codecs <= {0, COMPRESSIONS.index(compression)}


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("writer", CLIENTS)
def test_ten_mebibytes_and_one_byte_reach_every_reader(
    connect: Connect, confluent: Confluent, topic: str, writer: str, compression: Compression
) -> None:
    confluent.create_topic(topic, configs=ROOM)

    connect(writer).produce(topic, [Record(b"large", LARGE), Record(b"small", b"x")], compression=compression)

    for reader in CLIENTS:
        read = connect(reader).consume(topic, 2)
        # Digests, because the report of a difference would be as large as the records.
        digests = [(each.key, hashlib.sha256(each.value or b"").hexdigest()) for each in read.values()]
        assert digests == [(b"large", hashlib.sha256(LARGE).hexdigest()), (b"small", hashlib.sha256(b"x").hexdigest())]
