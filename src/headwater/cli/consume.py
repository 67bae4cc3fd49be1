"""`headwater consume`: prints records of topics, as bare values or with keys, headers, offsets and timestamps."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from headwater.cli.options import INT64_MAX, bootstrap_option, connect, parse_time
from headwater.cli.serde_options import RecordDecoder, read_format_options

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.consumer import ConsumedRecord, Consumer
    from headwater.ids import TopicPartition

FORMATS = ("value", "table", "json", "yaml")

_TOPIC_WIDTH = 20
_COLUMNS = f"{'PARTITION':<9}  {'OFFSET':<10}  {'TIMESTAMP':<24}  {'KEY':<20}  {'HEADERS':<20}  VALUE"


class Start(NamedTuple):
    """Where to begin: `kind` is beginning, end, offset, tail (`number` offsets before the end) or time."""

    kind: str
    number: int = 0


class StartType(click.ParamType[Start]):
    name = "START"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if value in {"beginning", "end"}:
            return Start(value)
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and int(digits) <= INT64_MAX:
            return Start("tail" if value.startswith("-") else "offset", int(digits))
        time_ms = parse_time(value)
        if time_ms is None:
            self.fail(
                f"{value!r} is not beginning, end, an offset (42), a number of last records (-10), a time in ISO 8601 "
                "(2025-06-01T12:30Z) or in ms (1748781000000ms)",
                param,
                ctx,
            )
        return Start("time", time_ms)


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--group", metavar="NAME", help="Read as a member of this group; see above.")
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="beginning",
    show_default=True,
    help="beginning, end, an offset, or a time; see above.",
)
@click.option("--from-beginning", is_flag=True, help="The same as --from beginning.")
@click.option(
    "--partition", "chosen", type=click.IntRange(min=0), multiple=True, help="Only this one; may be repeated."
)
@click.option("--max", "count_max", type=click.IntRange(min=0), help="Stop after so many records.")
@click.option("--follow", is_flag=True, help="Wait for new records until Ctrl-C, instead of stopping at the end.")
@click.option("--committed", is_flag=True, help="Leave out records of transactions that are open or were aborted.")
@read_format_options
@click.option("--key-separator", metavar="TEXT", help="With values alone, print each record's key and TEXT before it.")
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="value",
    show_default=True,
    help="value prints values alone; the others print keys, headers, offsets and timestamps as well.",
)
@bootstrap_option
def consume(
    topics: tuple[str, ...],
    group: str | None,
    start: Start,
    from_beginning: bool,
    chosen: tuple[int, ...],
    count_max: int | None,
    follow: bool,
    committed: bool,
    key_format: str,
    value_format: str,
    registry: str | None,
    key_separator: str | None,
    format: str,
    bootstrap: str,
) -> None:
    """Read records of TOPIC, or of several, up to those that are there now, or on and on with --follow.

    \b
    --from takes
      beginning               the oldest record of each partition
      end                     what is written from now on (with --follow)
      42                      this offset, in each partition
      -10                     the last 10 offsets of each partition
      2025-06-01T12:30Z       the first record that is not older (ISO 8601; UTC where no zone is named)
      1748781000000ms         the same in milliseconds since 1970

    Values are printed byte for byte, each with a newline after it (on a terminal, what is not printable is escaped; a
    null value is an empty line). json prints one object a line, yaml one document for each record: `key`, `value` and
    the values of headers are text, or have `_base64` at the end of their names where they are no UTF-8.

    With a --registry, keys and values with the number of a schema in front are decoded, and printed as JSON
    (--key-format, --value-format auto). registry makes one that cannot be decoded an error, json and string decode
    those without a number, and binary leaves bytes as they are.

    With --group, the members of the group share the partitions, and what is printed is committed, so that the next one
    goes on from there. --from, beginning or end, then counts only where the group has committed nothing yet. Without
    --follow it ends when the partitions that the group gave it are read up to their present ends. The group is left at
    the end, and on Ctrl-C or SIGTERM; `headwater group` shows it.

    \b
    Examples:
      headwater consume orders --from -10 --follow
      headwater consume orders --format json --max 1
      headwater consume orders invoices --group billing --follow
    """
    _check_usage(group, start, from_beginning=from_beginning, chosen=chosen)
    if key_separator is not None and format != "value":
        raise click.UsageError(f"--key-separator has no meaning with --format {format}, which shows keys anyway")
    from headwater.cli.pipe import until_pipe_is_closed

    stream = sys.stdout.buffer
    with until_pipe_is_closed():
        try:
            with connect(bootstrap) as cluster:
                partitions, ends = _ends(cluster, topics, chosen, committed=committed)
                decoder = RecordDecoder(key_format, value_format, registry)
                write_record = _writer(format, stream, key_separator, with_topic=len(topics) > 1)

                def write(record: "ConsumedRecord") -> None:
                    write_record(decoder.decoded(record))

                if group is not None:
                    from headwater.cli.subcommands.consume_group import consume_in_group

                    consume_in_group(
                        cluster, group, topics, write, stream,
                        ends=None if follow else ends,
                        from_end=start.kind == "end",
                        count_max=count_max,
                        committed=committed,
                    )  # fmt: skip
                else:
                    from headwater.client.consumer import Consumer

                    positions = _positions(cluster, partitions, start, ends)
                    consumer = Consumer(cluster, positions, committed_only=committed)
                    for record in islice(_read(consumer, None if follow else ends, stream), count_max):
                        write(record)
        except KeyboardInterrupt:
            # Ctrl-C is the normal way to end --follow, so it is no failure.
            if not follow:
                raise
        stream.flush()


def _check_usage(group: str | None, start: Start, *, from_beginning: bool, chosen: Sequence[int]) -> None:
    if from_beginning and start.kind != "beginning":
        raise click.UsageError("--from-beginning contradicts --from")
    if group is None:
        return
    if not group:
        raise click.UsageError("--group needs a name")
    if chosen:
        raise click.UsageError("--partition has no meaning with --group, which chooses the partitions itself")
    if start.kind not in {"beginning", "end"}:
        raise click.UsageError(
            "with --group, --from is beginning or end; `headwater group reset` moves a group to an offset or a time"
        )


def _ends(
    cluster: "Cluster", topics: Sequence[str], chosen: Sequence[int], *, committed: bool
) -> "tuple[list[TopicPartition], dict[TopicPartition, int]]":
    """Return the selected partitions and their present end offsets."""
    from headwater.client.offsets import LATEST, list_offsets
    from headwater.ids import TopicName, TopicPartition

    partitions = [
        TopicPartition(TopicName(topic), index)
        for topic in dict.fromkeys(topics)
        for index in dict.fromkeys(chosen or range(len(cluster.topic(topic).partitions)))
    ]
    return partitions, list_offsets(cluster, partitions, LATEST, committed_only=committed)


def _positions(
    cluster: "Cluster", partitions: "Sequence[TopicPartition]", start: Start, ends: "Mapping[TopicPartition, int]"
) -> "dict[TopicPartition, int]":
    from headwater.client.offsets import EARLIEST, list_offsets

    match start.kind:
        case "end":
            return dict(ends)
        case "time":
            return list_offsets(cluster, partitions, start.number)
        case _:
            earliest = list_offsets(cluster, partitions, EARLIEST)
    if start.kind == "tail":
        return {partition: max(ends[partition] - start.number, earliest[partition]) for partition in partitions}
    if start.kind == "beginning":
        return earliest
    positions: dict[TopicPartition, int] = {}
    for partition in partitions:
        positions[partition] = min(max(start.number, earliest[partition]), ends[partition])
        if positions[partition] != start.number:
            click.echo(
                f"note: {partition} has offsets {earliest[partition]} to {ends[partition]}, not {start.number}; "
                f"reading from {positions[partition]}",
                err=True,
            )
    return positions


def _read(
    consumer: "Consumer", ends: "Mapping[TopicPartition, int] | None", stream: BinaryIO
) -> "Iterator[ConsumedRecord]":
    """Yield records, up to `ends` unless that is None. The output is flushed before each wait."""
    from headwater.cli.pipe import check_reader

    while True:
        if ends is not None:
            for partition, position in list(consumer.positions.items()):
                if position >= ends[partition]:
                    del consumer.positions[partition]
            if not consumer.positions:
                return
        for fetched in consumer.fetch_batches():
            end = INT64_MAX if ends is None else ends[fetched.partition]
            for record in consumer.read(fetched):
                if record.offset < end:
                    yield record
        stream.flush()
        check_reader(stream)


def _writer(
    format: str, stream: BinaryIO, key_separator: str | None, *, with_topic: bool
) -> "Callable[[ConsumedRecord], None]":
    from headwater.cli.rows.record_rows import as_bytes, headers_cell, record_row, row_writer, text_cell

    if format == "table":
        from headwater.cli.options import time_text

        click.echo(f"{'TOPIC':<{_TOPIC_WIDTH}}  {_COLUMNS}" if with_topic else _COLUMNS)

        def write_line(record: "ConsumedRecord") -> None:
            topic = f"{record.topic:<{_TOPIC_WIDTH}}  " if with_topic else ""
            stream.write(
                f"{topic}{record.partition:<9}  {record.offset:<10}  {time_text(record.timestamp_ms) or '-':<24}  "
                f"{text_cell(record.key):<20}  {headers_cell(record.headers):<20}  {text_cell(record.value)}\n".encode()
            )

        return write_line
    if format != "value":
        write_row = row_writer(format, stream)
        return lambda record: write_row(
            {"topic": record.topic, "partition": record.partition, **record_row(*record[2:])}
        )
    separator = b"" if key_separator is None else key_separator.encode()
    is_terminal = stream.isatty()

    def write_value(record: "ConsumedRecord") -> None:
        line = as_bytes(record.value) or b""
        if key_separator is not None:
            line = (as_bytes(record.key) or b"") + separator + line
        # Escape control characters for a terminal: a malicious producer could use them to control it.
        stream.write((text_cell(line).encode() if is_terminal else line) + b"\n")

    return write_value
