"""`headwater produce`: writes records from an argument, a file or the lines of standard input."""

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import click

from headwater.cli.duration import Duration
from headwater.cli.interruption import Interruption
from headwater.cli.options import Assignment, Moment, bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.cli.serde_options import WriteFormat, value_serializer, write_format_options

if TYPE_CHECKING:
    from headwater.client.delivery import DeliveredBatch
    from headwater.client.producer import Producer
    from headwater.clock import Clock

ACKS = {"0": 0, "1": 1, "all": -1}
# By their numbers: 0 to 4.
PRIORITIES = ("critical", "high", "normal", "low", "background")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUE_BYTES_MAX = 100 * 1024 * 1024
# With auto.create.topics.enable, it takes a moment until a new topic is ready.
TOPIC_WAIT_MS = 2_000

_READ_BYTES = 1024 * 1024
_PROGRESS_RECORDS = 1_000
# Shorter pauses are accumulated, because a sleep takes longer than requested.
_PAUSE_MS_MIN = 10


class Entry(NamedTuple):
    key: bytes | None
    value: bytes | None


class WrittenRange(NamedTuple):
    records: int
    first_offset: int
    last_offset: int


@click.command()
@click.argument("topic")
@click.argument("value", required=False)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file that is the value.")
@click.option("--null", is_flag=True, help="Write a null value, which removes the key from a compacted topic.")
@click.option("--key", metavar="TEXT", help="The key of every record.")
@click.option("--key-separator", metavar="TEXT", help="Each line is a key, TEXT and a value.")
@click.option("--header", "headers", type=Assignment(), multiple=True, help="A header; may be repeated.")
@click.option("--delay", type=Duration(), help="Deliver records so much later, such as 30s or 10m.")
@click.option("--deliver-at", type=Moment(), help="Deliver records at this time; written as for --timestamp.")
@click.option("--schedule-id", metavar="ID", help="A name for the delayed record, for `headwater schedule`.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="How urgent records are for share groups.")
@click.option("--ttl", type=Duration(), help="How long share groups may deliver records, such as 1h.")
@write_format_options
@click.option("--partition", type=click.IntRange(min=0), help="Write to this partition; by default the key decides.")
@click.option("--timestamp", type=Moment(), help="2025-06-01T12:30Z (UTC where no zone is named) or 1748781000000ms.")
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="What counts as written.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second at most.")
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
@format_option
@bootstrap_option
def produce(
    topic: str,
    value: str | None,
    file: Path | None,
    null: bool,
    key: str | None,
    key_separator: str | None,
    headers: tuple[tuple[str, str], ...],
    delay: int | None,
    deliver_at: int | None,
    schedule_id: str | None,
    priority: str | None,
    ttl: int | None,
    value_format: str,
    schema: Path | None,
    schema_id: int | None,
    message: str | None,
    registry: str | None,
    partition: int | None,
    timestamp: int | None,
    compression: str,
    acks: str,
    rate: float | None,
    quiet: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Write records to TOPIC: VALUE, or a --file, or every line of standard input as one record.

    Prints how many records each partition got, and their offsets. With acks=all (the default) every record is written
    exactly once, however often the connection breaks; lines are sent as they come in, in batches when they come fast.

    --value-format string and json check what is written. With avro, protobuf, or json and a schema, each VALUE or line
    is JSON, and the number of its schema is put in front, as Confluent's serializers do: the schema of --schema, which
    is registered, of --schema-id, or the latest version of subject TOPIC-value. Bytes of Avro are text with a character
    for each.

    --delay, --deliver-at, --priority and --ttl set headers that a topic of Headwater heeds if its settings say so
    (headwater.delay.enable, headwater.priority.enable, headwater.ttl.enable).
    """
    sources = [name for name, given in (("VALUE", value is not None), ("--file", file), ("--null", null)) if given]
    if len(sources) > 1:
        raise click.UsageError(f"{' and '.join(sources)} exclude each other")
    if key_separator is not None and (key is not None or sources):
        raise click.UsageError("--key-separator is for lines, and excludes --key, VALUE, --file and --null")
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    if delay is not None and deliver_at is not None:
        raise click.UsageError("--delay and --deliver-at exclude each other")
    if schedule_id is not None and delay is None and deliver_at is None:
        raise click.UsageError("--schedule-id needs --delay or --deliver-at")
    from headwater.client.producer import Producer
    from headwater.protocol.batches.compression import Codec

    interruption = Interruption()
    if sources:
        content = _read_file(file) if file is not None else None if null else _bytes(value)
        entries: Iterator[Entry | None] = iter([Entry(_bytes(key), content)])
        progress = nullcontext(_show_nothing)
    else:
        entries = _lines(sys.stdin.buffer, _bytes(key), _bytes(key_separator), interruption)
        progress = _progress(sys.stdin.buffer) if sys.stderr.isatty() and not quiet else nullcontext(_show_nothing)
    record_headers = (
        *((name, text.encode(errors="surrogateescape")) for name, text in headers),
        *_directives(delay, deliver_at, schedule_id, priority, ttl),
    )
    chosen = WriteFormat(value_format, schema, schema_id, message, registry)
    serialized = value_serializer(chosen, topic, record_headers)
    written: dict[int, WrittenRange] = {}
    with connect(bootstrap, topic_wait_ms=TOPIC_WAIT_MS) as cluster:
        producer = Producer(
            cluster,
            acks=ACKS[acks],
            codec=Codec[compression.upper()],
            on_delivered=lambda delivered: _add_delivered(written, delivered),
        )

        def write(entry: Entry) -> None:
            producer.send(
                topic,
                serialized(entry.value),
                key=entry.key,
                headers=record_headers,
                partition=partition,
                timestamp_ms=timestamp,
            )

        try:
            # Deferred, because an interruption between a request and its answer would lose records from the summary.
            with progress as advance, interruption, interruption.deferred():
                _write_all(_paced(entries, rate, cluster.clock, interruption), producer, write, advance)
        finally:
            if written:
                show(_summary(topic, written), format)


def _directives(
    delay: int | None, deliver_at: int | None, schedule_id: str | None, priority: str | None, ttl: int | None
) -> Iterator[tuple[str, bytes]]:
    """The headers that ask the broker for something."""
    from headwater.protocol.batches import directives

    for name, number in (
        (directives.DELAY_MS, delay),
        (directives.DELIVER_AT, deliver_at),
        (directives.PRIORITY, None if priority is None else PRIORITIES.index(priority)),
        (directives.TTL_MS, ttl),
    ):
        if number is not None:
            yield name, b"%d" % number
    if schedule_id is not None:
        yield directives.SCHEDULE_ID, schedule_id.encode(errors="surrogateescape")


def _write_all(
    entries: Iterator[Entry | None],
    producer: "Producer",
    write: Callable[[Entry], None],
    advance: Callable[[Entry | None], None],
) -> None:
    try:
        for entry in entries:
            if entry is None:
                producer.flush()
            else:
                write(entry)
            advance(entry)
    except (KeyboardInterrupt, click.ClickException):
        # Write the lines that were read before the interruption or the error.
        producer.flush()
        raise
    producer.flush()


def _paced(
    entries: Iterator[Entry | None], rate: float | None, clock: "Clock", interruption: Interruption
) -> Iterator[Entry | None]:
    """Limit entries to `rate` per second. As in `_lines`, a None precedes each pause."""
    if rate is None:
        yield from entries
        return
    started_ms = clock.monotonic_ms()
    count = 0
    for entry in entries:
        if entry is not None:
            early_ms = started_ms + count * 1000 / rate - clock.monotonic_ms()
            if early_ms >= _PAUSE_MS_MIN:
                yield None
                with interruption.allowed():
                    time.sleep(early_ms / 1000)
            count += 1
        yield entry


def _read_file(file: Path) -> bytes:
    with file.open("rb") as stream:
        content = stream.read(VALUE_BYTES_MAX + 1)
    if len(content) > VALUE_BYTES_MAX:
        raise click.ClickException(f"{file} is larger than {VALUE_BYTES_MAX} bytes")
    return content


def _lines(
    stream: BinaryIO, key: bytes | None, separator: bytes | None, interruption: Interruption
) -> Iterator[Entry | None]:
    """Yield an entry for each line, and None whenever the next line has not arrived yet: time to flush."""
    number = 0
    for line in _split(stream, interruption):
        if line is None:
            yield None
            continue
        number += 1
        if separator is None:
            yield Entry(key, line)
            continue
        before, found, after = line.partition(separator)
        if not found:
            raise click.ClickException(f"line {number} has no key separator {separator.decode(errors='replace')!r}")
        yield Entry(before, after)


def _split(stream: BinaryIO, interruption: Interruption) -> Iterator[bytes | None]:
    rest: list[bytes] = []
    rest_bytes = 0
    # `read1` returns what has arrived, so that lines do not wait for a full buffer.
    read = cast("Callable[[int], bytes]", getattr(stream, "read1", stream.read))
    while True:
        with interruption.allowed():
            # Allow interruptions in this wait but not in the read: an interrupted read could lose lines.
            _poll(stream, timeout_ms=None)
        if not (chunk := read(_READ_BYTES)):
            break
        first, *others = chunk.split(b"\n")
        rest.append(first)
        rest_bytes += len(first)
        if rest_bytes > VALUE_BYTES_MAX:
            raise click.ClickException(f"a line is longer than {VALUE_BYTES_MAX} bytes")
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest, rest_bytes = [others[-1]], len(others[-1])
        if not _poll(stream, timeout_ms=0):
            # The next read would block.
            yield None
    if rest_bytes:
        yield b"".join(rest)


def _poll(stream: BinaryIO, *, timeout_ms: int | None) -> bool:
    """Wait up to `timeout_ms` (None: for ever) until the stream is readable. Return whether it is."""
    try:
        descriptor = stream.fileno()
    except OSError:
        return True
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout_ms))


def _show_nothing(_: Entry | None) -> None:
    """Replaces the progress bar when none is shown."""


@contextmanager
def _progress(stream: BinaryIO) -> Generator[Callable[[Entry | None], None]]:
    """Show a progress bar on standard error. Its total is known if standard input is a file."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    status = os.fstat(stream.fileno())
    columns = (TextColumn("{task.fields[records]} records"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
        task = progress.add_task("", total=total, records=0)
        records = bytes_read = 0

        def advance(entry: Entry | None) -> None:
            nonlocal records, bytes_read
            if entry is not None:
                records += 1
                bytes_read += len(entry.value or b"") + len(entry.key or b"") + 1
            if entry is None or records % _PROGRESS_RECORDS == 0:
                progress.update(task, completed=bytes_read, records=records)

        yield advance
        advance(None)


def _add_delivered(written: dict[int, WrittenRange], delivered: "DeliveredBatch") -> None:
    partition = delivered.partition.partition
    known = written.get(partition, WrittenRange(0, -1, -1))
    first, last = known.first_offset, known.last_offset
    if delivered.base_offset >= 0:
        first = delivered.base_offset if first < 0 else first
        last = delivered.base_offset + delivered.record_count - 1
    written[partition] = WrittenRange(known.records + delivered.record_count, first, last)


def _summary(topic: str, written: dict[int, WrittenRange]) -> list[dict[str, object]]:
    return [
        {
            "topic": topic,
            "partition": partition,
            "records": records,
            # With acks=0 the broker does not answer, so offsets are unknown.
            "first_offset": first if first >= 0 else None,
            "last_offset": last if last >= 0 else None,
        }
        for partition, (records, first, last) in sorted(written.items())
    ]


def _bytes(text: str | None) -> bytes | None:
    """Encode an argument. Bytes that are not UTF-8 are kept."""
    return None if text is None else text.encode(errors="surrogateescape")
