"""`headwater schedule`: records that are to be delivered later."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from headwater.cli.duration import Duration, duration_text
from headwater.cli.options import Moment, PlaceType, bootstrap_option, connect, time_text
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.client.schedule import Altered, Name, Place, Schedule, ScheduledRecord


def _names_options(command: Callable[..., object]) -> Callable[..., object]:
    command = click.option(
        "--schedule-id", "schedule_ids", multiple=True, metavar="ID", help="Records with this id; may be repeated."
    )(command)
    return click.argument(
        "places", type=PlaceType("; an id is given with --schedule-id"), nargs=-1, metavar="[PLACE]..."
    )(command)


@click.group()
def schedule() -> None:
    """List, cancel, move and deliver records that are scheduled.

    In a topic with headwater.delay.enable producers can have records delivered later, with the headers
    headwater-delay-ms or headwater-deliver-at, or with `headwater produce --delay`. Until then a record goes by its
    PLACE, such as 0-17, which `list` shows, or by the id that its producer gave it (headwater-schedule-id).
    """


@schedule.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@format_option
@bootstrap_option
def count(topics: tuple[str, ...], format: str, bootstrap: str) -> None:
    """Show how many records are scheduled, by partition, in TOPICs or in all topics.

    \b
    Examples:
      headwater schedule count
      headwater schedule count reminders --format json
    """
    from headwater.client.schedule import pending

    with connect(bootstrap) as cluster:
        found = pending(cluster, topics or None)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "records": each.record_count,
            "bytes": each.size_bytes,
            "next_due": None if each.next_due_ms is None else time_text(each.next_due_ms),
            "next_due_ms": each.next_due_ms,
        }
        for each in found
    ]
    show(rows, format, ("topic", "partition", "records", "bytes", "next_due"))


@schedule.command("list")
@click.argument("topic")
@click.option("--max", "max_count", type=click.IntRange(min=1), default=100, show_default=True, help="How many.")
@format_option
@bootstrap_option
def list_records(topic: str, max_count: int, format: str, bootstrap: str) -> None:
    """List the scheduled records of TOPIC, by partition and in the order in which they were produced.

    \b
    Examples:
      headwater schedule list reminders
      headwater schedule list reminders --max 1000 --format json
    """
    from headwater.client.schedule import Schedule

    with connect(bootstrap) as cluster:
        now_ms = cluster.clock.now_ms()
        found = list(islice(Schedule(cluster, topic).records(), max_count))
    rows = [_row(each, now_ms) for each in found]
    show(rows, format, ("place", "due", "in", "bytes", "schedule_id"))


@schedule.command("show")
@click.argument("topic")
@_names_options
@format_option
@bootstrap_option
def show_records(
    topic: str, places: "tuple[Place, ...]", schedule_ids: tuple[str, ...], format: str, bootstrap: str
) -> None:
    """Show scheduled records of TOPIC with what is in them.

    \b
    Examples:
      headwater schedule show reminders 0-17
      headwater schedule show reminders --schedule-id invoice-7 --format yaml
    """
    from headwater.cli.rows.record_rows import text_field
    from headwater.client.schedule import Schedule

    names = _names(places, schedule_ids)
    with connect(bootstrap) as cluster:
        now_ms = cluster.clock.now_ms()
        found = Schedule(cluster, topic).find(*names)
    if not found:
        raise click.ClickException(f"no such record is scheduled in topic '{topic}': it may have been delivered")
    rows = [
        {
            **_row(each, now_ms),
            **text_field("key", each.key),
            **text_field("value", each.value),
            "headers": [{"name": name, **text_field("value", content)} for name, content in each.headers],
        }
        for each in found
    ]
    show(rows, format, ("place", "due", "in", "schedule_id", "key", "value"))


@schedule.command()
@click.argument("topic")
@_names_options
@format_option
@bootstrap_option
def cancel(topic: str, places: "tuple[Place, ...]", schedule_ids: tuple[str, ...], format: str, bootstrap: str) -> None:
    """Cancel scheduled records of TOPIC: they will not appear.

    \b
    Examples:
      headwater schedule cancel reminders 0-17 0-18
      headwater schedule cancel reminders --schedule-id invoice-7
    """
    _alter(topic, places, schedule_ids, format, bootstrap, lambda schedule, names: schedule.cancel(*names))


@schedule.command()
@click.argument("topic")
@_names_options
@format_option
@bootstrap_option
def deliver(
    topic: str, places: "tuple[Place, ...]", schedule_ids: tuple[str, ...], format: str, bootstrap: str
) -> None:
    """Deliver scheduled records of TOPIC now.

    \b
    Examples:
      headwater schedule deliver reminders 0-17
    """
    _alter(topic, places, schedule_ids, format, bootstrap, lambda schedule, names: schedule.deliver(*names))


@schedule.command()
@click.argument("topic")
@_names_options
@click.option("--delay", type=Duration(), help="So much from now, such as 30s or 10m.")
@click.option("--to", "moment", type=Moment(), help="At this time: 2025-06-01T12:30Z or 1748781000000ms.")
@format_option
@bootstrap_option
def move(
    topic: str,
    places: "tuple[Place, ...]",
    schedule_ids: tuple[str, ...],
    delay: int | None,
    moment: int | None,
    format: str,
    bootstrap: str,
) -> None:
    """Move scheduled records of TOPIC to another time.

    \b
    Examples:
      headwater schedule move reminders 0-17 --delay 1h
      headwater schedule move reminders --schedule-id invoice-7 --to 2030-01-01T09:00Z
    """
    if (delay is None) is (moment is None):
        raise click.UsageError("give either --delay or --to")

    def move_to(schedule: "Schedule", names: "Sequence[Name]") -> "list[Altered]":
        due_ms = schedule.clock.now_ms() + (delay or 0) if moment is None else moment
        return schedule.move(due_ms, *names)

    _alter(topic, places, schedule_ids, format, bootstrap, move_to)


def _alter(
    topic: str,
    places: "Sequence[Place]",
    schedule_ids: Sequence[str],
    format: str,
    bootstrap: str,
    change: "Callable[[Schedule, Sequence[Name]], list[Altered]]",
) -> None:
    from headwater.client.schedule import Schedule

    names = _names(places, schedule_ids)
    with connect(bootstrap) as cluster:
        altered = change(Schedule(cluster, topic), names)
    rows = [
        {
            "record": str(each.name),
            "changed": each.record_count,
            "error": None if each.refusal is None else str(each.refusal),
        }
        for each in altered
    ]
    show(rows, format)
    failed = sum(each.refusal is not None for each in altered)
    if failed:
        raise click.ClickException(f"{failed} of {len(altered)} could not be changed")


def _names(places: "Sequence[Place]", schedule_ids: Sequence[str]) -> "list[Name]":
    from headwater.client.schedule import ScheduleId

    names: list[Name] = [*places, *map(ScheduleId, schedule_ids)]
    if not names:
        raise click.UsageError("name records by their places, such as 0-17, or with --schedule-id")
    return names


def _row(found: "ScheduledRecord", now_ms: int) -> dict[str, object]:
    return {
        "place": str(found.place),
        "due": time_text(found.due_ms),
        "due_ms": found.due_ms,
        "in": duration_text(found.due_ms - now_ms),
        "bytes": found.size_bytes,
        "schedule_id": found.schedule_id,
        "readable": found.is_readable,
    }
