"""`headwater queue dead-letters list` and `show`, and the options that choose dead letters."""

from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING

import click

from headwater.cli.options import INT32_MAX, Moment, PlaceType, bootstrap_option, connect, time_text
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.cli.rows.record_rows import Row
    from headwater.client.cluster import Cluster
    from headwater.client.dead_letters.letter import DeadLetter, LetterFilter
    from headwater.client.schedule import Place

REASONS = ("rejected", "exhausted", "expired")
COLUMNS = ("place", "origin", "group", "reason", "attempts", "given_up", "state", "redrives", "bytes", "key")
KEY_CHARACTERS_MAX = 40


def filter_options(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the options that choose letters, which reach the command as a LetterFilter `chosen`."""

    @wraps(command)
    def filtered(
        *arguments: object,
        reason: str | None,
        origin_topic: str | None,
        origin_partition: int | None,
        group: str | None,
        since: int | None,
        **options: object,
    ) -> object:
        from headwater.client.dead_letters.letter import LetterFilter
        from headwater.protocol.batches.dead_letter_headers import Reason

        chosen = LetterFilter(
            reason=None if reason is None else Reason[reason.upper()],
            origin_topic=origin_topic,
            origin_partition=origin_partition,
            group=group,
            since_ms=since,
        )
        return command(*arguments, chosen=chosen, **options)

    for option in (
        click.option("--since", type=Moment(), help="Only letters given up then or later: 2025-06-01T12:30Z."),
        click.option("--group", metavar="NAME", help="Only letters of this share group."),
        click.option("--origin-partition", type=click.IntRange(0, INT32_MAX), help="Only letters of this partition."),
        click.option("--origin-topic", metavar="NAME", help="Only letters of records of this topic."),
        click.option("--reason", type=click.Choice(REASONS), help="Only letters given up for this reason."),
    ):
        filtered = option(filtered)
    return filtered


@click.command("list")
@click.argument("topic", required=False)
@filter_options
@click.option(
    "--state",
    type=click.Choice(("waiting", "redriven")),
    help="Only letters that were not put back yet, or that were.",
)
@click.option("--max", "count_max", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many.")
@click.option("--after", type=PlaceType(), help="Go on behind this place, the last one of the list before.")
@format_option
@bootstrap_option
def list_letters(
    topic: str | None,
    chosen: "LetterFilter",
    state: str | None,
    count_max: int,
    after: "Place | None",
    format: str,
    bootstrap: str,
) -> None:
    """List the dead letters in TOPIC, by partition and offset; without TOPIC those of --group, or, if no group is
    named either, the dead-letter topics.

    STATE is `waiting`, or `redriven` if the letter was put back: letters stay in their topic until they are purged or
    their retention ends. REDRIVES is how often its record had been put back before. BYTES are those of key, value and
    headers; `show` shows them.

    \b
    Examples:
      headwater queue dead-letters list
      headwater queue dead-letters list --group billing
      headwater queue dead-letters list orders.dlq --reason exhausted --since 2025-06-01T12:30Z
      headwater queue dead-letters list orders.dlq --after 0-99 --format json
    """
    from dataclasses import replace

    from headwater.client.dead_letters.dead_letters import DeadLetters

    if state is not None:
        chosen = replace(chosen, is_redriven=state == "redriven")
    with connect(bootstrap) as cluster:
        if topic is None:
            topic = _only_topic(cluster, chosen, after)
        if topic is None:
            show(_topic_rows(cluster), format, ("topic", "partitions", "records"))
            return
        # One more than is shown tells whether there are more. Values are not kept: there may be many, and large ones.
        rows = [_row(each) for each in islice(DeadLetters(cluster, topic).letters(chosen, after=after), count_max + 1)]
    if not rows and format == "table":
        click.echo(f"topic '{topic}' has no such dead letters")
        return
    has_more = len(rows) > count_max
    rows = rows[:count_max]
    if format == "table":
        for row in rows:
            row["key"] = _short_key(row)
    show(rows, format, COLUMNS)
    if has_more:
        click.echo(f"there are more: --after {rows[-1]['place']}", err=True)


@click.command("show")
@click.argument("topic")
@click.argument("places", type=PlaceType(), nargs=-1, required=True, metavar="PLACE...")
@format_option
@bootstrap_option
def show_letters(topic: str, places: "tuple[Place, ...]", format: str, bootstrap: str) -> None:
    """Show the dead letters at each PLACE of TOPIC: where they come from, key, value and all headers of the record.

    \b
    Examples:
      headwater queue dead-letters show orders.dlq 0-17
      headwater queue dead-letters show orders.dlq 0-17 0-18 --format json
    """
    from headwater.cli.rows.record_rows import headers_cell, text_cell, text_field
    from headwater.client.dead_letters.dead_letters import DeadLetters

    with connect(bootstrap) as cluster:
        found = DeadLetters(cluster, topic).at(places)
    if format == "table":
        # One field a line: a value may be long.
        for letter in found:
            fields = _row(letter) | {
                "key": text_cell(letter.key),
                "value": text_cell(letter.value),
                "headers": headers_cell(letter.headers),
            }
            show([{"field": name, "value": value} for name, value in fields.items()], format, ("field", "value"))
        return
    rows = [
        {
            **_row(letter),
            **text_field("value", letter.value),
            "headers": [{"name": name, **text_field("value", content)} for name, content in letter.headers],
        }
        for letter in found
    ]
    show(rows, format)


def _only_topic(cluster: "Cluster", chosen: "LetterFilter", after: "Place | None") -> str | None:
    """The dead-letter topic of the group that is asked for; None if all topics are."""
    if chosen.group is None:
        from headwater.client.dead_letters.letter import ALL

        if after is not None or chosen != ALL:
            raise click.UsageError("name the TOPIC whose letters are to be listed, or a --group")
        return None
    from headwater.client.dead_letters.letter_topics import letter_topics_of

    names = letter_topics_of(cluster, chosen.group)
    if len(names) == 1:
        return names[0]
    if names:
        raise click.UsageError(f"group '{chosen.group}' has dead letters in {', '.join(names)}: name one as TOPIC")
    raise click.ClickException(f"there is no dead-letter topic of group '{chosen.group}'")


def _topic_rows(cluster: "Cluster") -> "list[Row]":
    from headwater.client.dead_letters.letter_topics import letter_topics
    from headwater.client.dead_letters.scan import span_of

    return [
        {"topic": each.name, "partitions": len(each.partitions), "records": span_of(cluster, each.name).size}
        for each in letter_topics(cluster)
    ]


def _short_key(row: "Row") -> object:
    key = row.get("key", row.get("key_base64"))
    if isinstance(key, str) and len(key) > KEY_CHARACTERS_MAX:
        return f"{key[: KEY_CHARACTERS_MAX - 3]}..."
    return key


def _row(letter: "DeadLetter") -> "Row":
    from headwater.cli.rows.record_rows import text_field

    origin = letter.origin
    return {
        "topic": letter.topic,
        "place": str(letter.place),
        "origin": f"{origin.topic}/{origin.partition}@{origin.offset}",
        "origin_topic": origin.topic,
        "origin_partition": origin.partition,
        "origin_offset": origin.offset,
        "origin_timestamp_ms": origin.timestamp_ms,
        "group": origin.group,
        "reason": origin.reason.label,
        "message": letter.message,
        "attempts": origin.delivery_count,
        "given_up": time_text(letter.given_up_ms),
        "given_up_ms": letter.given_up_ms,
        "content": "copied" if origin.is_copied else "omitted",
        "state": None if letter.is_redriven is None else "redriven" if letter.is_redriven else "waiting",
        "redrives": letter.redriven_count,
        "bytes": letter.size,
        **text_field("key", letter.key),
    }
