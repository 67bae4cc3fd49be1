"""`headwater queue dead-letters redrive` and `purge`."""

import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from headwater.cli.duration import Duration
from headwater.cli.options import PlaceType, bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.cli.subcommands.queue_letters import filter_options

if TYPE_CHECKING:
    from headwater.client.dead_letters.letter import LetterFilter
    from headwater.client.dead_letters.redrive import RedriveStep
    from headwater.client.schedule import Place

# So many letters that could not be put back are named; all are counted.
NAMED_MAX = 20
RATE_MAX = 1_000_000


@click.command()
@click.argument("topic")
@click.argument("places", type=PlaceType(), nargs=-1, metavar="[PLACE]...")
@filter_options
@click.option("--all", "is_all", is_flag=True, help="All letters of TOPIC.")
@click.option("--to", metavar="TOPIC", help="Put them into this topic.  [default: where each comes from]")
@click.option("--keep-timestamps", is_flag=True, help="Keep the timestamps of the records.  [default: now]")
@click.option("--rate", type=click.IntRange(1, RATE_MAX), metavar="N", help="At most so many letters a second.")
@click.option("--dry-run", is_flag=True, help="Only say what would be put back.")
@format_option
@bootstrap_option
def redrive(
    topic: str,
    places: "tuple[Place, ...]",
    chosen: "LetterFilter",
    is_all: bool,
    to: str | None,
    keep_timestamps: bool,
    rate: int | None,
    dry_run: bool,
    format: str,
    bootstrap: str,
) -> int:
    """Put dead letters of TOPIC back where they came from: those at each PLACE, those that the options choose, or --all
    that are there now.

    A record is put back with its key, its value and its own headers. `headwater-redriven` says which letter it was; a
    record that was put back three times has three of them. It goes to the partition that it came from; in another topic
    (--to) its key chooses.

    Readers of committed records (share.isolation.level=read_committed) see each letter once. Should the command be
    killed, run it again: it goes on where it was. Letters that were put back stay in TOPIC and are passed over from
    then on; `list` calls them redriven, and `headwater queue dead-letters purge TOPIC --redriven` deletes them.

    The exit code is 1 if letters could not be put back.

    \b
    Examples:
      headwater queue dead-letters redrive orders.dlq 0-17 0-18
      headwater queue dead-letters redrive orders.dlq --group billing --reason exhausted --dry-run
      headwater queue dead-letters redrive orders.dlq --all --rate 100
      headwater queue dead-letters redrive orders.dlq --all --to orders.repair
    """
    from headwater.client.dead_letters.dead_letters import DeadLetters
    from headwater.client.dead_letters.letter import ALL

    if (is_all, bool(places), chosen != ALL).count(True) != 1:
        raise click.UsageError("choose letters: by their places, by options such as --reason, or --all of them")
    tally = _Tally()
    with connect(bootstrap) as cluster:
        letters = DeadLetters(cluster, topic)
        steps = letters.redrive(
            places or chosen, to=to, keeps_timestamps=keep_timestamps, per_second_max=rate, is_trial=dry_run
        )
        with _progress(len(places) or letters.count(chosen)) as advance:
            for step in steps:
                tally.add(step)
                advance(step)
    row = {
        "topic": topic,
        "would_redrive" if dry_run else "redriven": tally.redriven_count,
        "redriven_before": tally.already_count,
        "failed": tally.failed_count,
    }
    show([row | {"failures": tally.failures} if format != "table" else row], format)
    tally.tell_failures()
    return 1 if tally.failed_count else 0


@click.command()
@click.argument("topic")
@click.option("--all", "is_all", is_flag=True, help="All that is there now.")
@click.option(
    "--through",
    type=PlaceType(),
    multiple=True,
    help="Of its partition, all up to this place; may be repeated.",
)
@click.option("--older-than", type=Duration(), help="What was copied to TOPIC longer ago than that, such as 7d.")
@click.option("--redriven", "is_redriven", is_flag=True, help="What was put back, up to the first that was not.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def purge(
    topic: str,
    is_all: bool,
    through: "tuple[Place, ...]",
    older_than: int | None,
    is_redriven: bool,
    yes: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Delete dead letters of TOPIC for ever.

    A topic is a log, which can be cut off at its beginning only: in each partition all up to some place is deleted, and
    what lies behind it stays.

    \b
    Examples:
      headwater queue dead-letters purge orders.dlq --redriven
      headwater queue dead-letters purge orders.dlq --older-than 7d --yes
      headwater queue dead-letters purge orders.dlq --through 0-17 --through 1-4
    """
    from headwater.client.dead_letters.dead_letters import DeadLetters

    if (is_all, bool(through), older_than is not None, is_redriven).count(True) != 1:
        raise click.UsageError("choose one of --all, --through, --older-than and --redriven")
    with connect(bootstrap) as cluster:
        letters = DeadLetters(cluster, topic)
        before_ms = None if older_than is None else cluster.clock.now_ms() - older_than
        span = letters.purgeable(through=through, older_than_ms=before_ms, is_redriven=is_redriven)
        if span and not yes:
            click.confirm(
                f"Delete {span.size} offsets in {len(span)} partitions of topic '{topic}'?",
                abort=True,
                err=True,
            )
        if span:
            letters.purge(span)
    if not span and format == "table":
        click.echo(f"topic '{topic}' has nothing of that kind")
        return
    rows = [
        {"topic": topic, "partition": each.partition, "deleted": end - start, "first_left": end}
        for each, (start, end) in sorted(span.items())
    ]
    show(rows, format, ("topic", "partition", "deleted", "first_left"))


class _Tally:
    def __init__(self) -> None:
        self.redriven_count = 0
        self.already_count = 0
        self.reasons: Counter[str] = Counter()
        # Places and reasons.
        self._named: list[tuple[str, str]] = []

    def add(self, step: "RedriveStep") -> None:
        self.redriven_count += step.redriven_count
        self.already_count += step.already_count
        self.reasons.update(each.reason for each in step.skipped)
        room = NAMED_MAX - len(self._named)
        self._named += [(str(each.letter.place), each.reason) for each in step.skipped[:room]]

    @property
    def failed_count(self) -> int:
        return self.reasons.total()

    @property
    def failures(self) -> list[dict[str, str]]:
        return [{"place": place, "reason": reason} for place, reason in self._named]

    def tell_failures(self) -> None:
        for place, reason in self._named:
            click.echo(f"{place}: {reason}", err=True)
        if self.failed_count > len(self._named):
            click.echo(f"and {self.failed_count - len(self._named)} more", err=True)


@contextmanager
def _progress(total: int) -> "Generator[Callable[[RedriveStep], None]]":
    """Show a progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.fields[redriven]} redriven"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, redriven=0)
        redriven = scanned = 0

        def advance(step: "RedriveStep") -> None:
            nonlocal redriven, scanned
            redriven += step.redriven_count
            scanned += step.scanned_count
            progress.update(task, completed=scanned, redriven=redriven)

        yield advance
