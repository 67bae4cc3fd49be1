"""`headwater audit`: who did what, from the topic in which brokers record it."""

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.duration import Duration
from headwater.cli.options import Moment, bootstrap_option, connect
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster

COLUMNS = ("timestamp", "type", "user", "client_ip", "resource", "result", "details")


@click.group()
def audit() -> None:
    """Find out who did what: log-ins, denied access, changes of topics, settings, users and rules."""


@audit.command()
@click.option("--since", "since_ms", type=Duration(), metavar="DURATION", help="Only events of the last 24h, 7d, …")
@click.option("--from", "from_ms", type=Moment(), metavar="TIME", help="Only events from then on (ISO 8601).")
@click.option("--to", "to_ms", type=Moment(), metavar="TIME", help="Only events before then.")
@click.option("--user", help="Only events of this principal: ann, or User:ann.")
@click.option("--type", "types", multiple=True, help="Only events of this type; topic. is a family; may be repeated.")
@click.option("--result", type=click.Choice(("success", "failure", "denied")), help="Only events with this outcome.")
@click.option("--resource", help="Only events whose resource contains this text.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Only the newest so many of them."
)
@format_option
@bootstrap_option
def query(
    since_ms: int | None,
    from_ms: int | None,
    to_ms: int | None,
    user: str | None,
    types: tuple[str, ...],
    result: str | None,
    resource: str | None,
    limit: int,
    format: str,
    bootstrap: str,
) -> None:
    """Print the events that fit all of the options, oldest first.

    \b
    Examples:
      headwater audit query --since 24h
      headwater audit query --user ann --type topic. --format json
      headwater audit query --since 1h --result denied
    """
    if since_ms is not None:
        if from_ms is not None:
            raise click.UsageError("--since and --from say the same thing: give one of them")
        from_ms = int((datetime.now(UTC) - timedelta(milliseconds=since_ms)).timestamp() * 1000)
    wanted = _Wanted(user, types, result, resource)
    with connect(bootstrap) as cluster:
        found = deque((event for event in _events(cluster, from_ms, to_ms) if wanted.fits(event)), maxlen=limit)
    show([_row(event) if format == "table" else event for event in found], format, COLUMNS)


class _Wanted:
    def __init__(self, user: str | None, types: tuple[str, ...], result: str | None, resource: str | None) -> None:
        self._user = user if user is None or ":" in user else f"User:{user}"
        self._types = types
        self._result = result
        self._resource = resource

    def fits(self, event: Mapping[str, Any]) -> bool:
        return (
            self._user in (None, event["user"])
            and (not self._types or any(_is_of(event["type"], wanted) for wanted in self._types))
            and self._result in (None, event["result"])
            and (self._resource is None or self._resource in event["resource"])
        )


def _is_of(event_type: str, wanted: str) -> bool:
    return event_type.startswith(wanted) if wanted.endswith(".") else event_type == wanted


def _events(cluster: "Cluster", from_ms: int | None, to_ms: int | None) -> Iterator[Mapping[str, Any]]:
    import orjson

    from headwater.client.consumer import Consumer
    from headwater.client.errors import UnknownTopic
    from headwater.client.offsets import EARLIEST, LATEST, list_offsets
    from headwater.coordination.catalog.topic_names import AUDIT_TOPIC
    from headwater.ids import TopicPartition

    partition = TopicPartition(AUDIT_TOPIC, 0)
    try:
        cluster.topic(AUDIT_TOPIC)
    except UnknownTopic:
        raise click.ClickException(
            f"there is no topic {AUDIT_TOPIC}: nothing has been recorded yet, or headwater.audit is off"
        ) from None
    end = list_offsets(cluster, [partition], LATEST)[partition]
    consumer = Consumer(cluster, list_offsets(cluster, [partition], EARLIEST if from_ms is None else from_ms))
    while consumer.positions[partition] < end:
        for record in consumer.poll():
            is_later = to_ms is not None and record.timestamp_ms >= to_ms
            if record.offset < end and not is_later and (from_ms is None or record.timestamp_ms >= from_ms):
                yield orjson.loads(record.value or b"{}")


def _row(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**event, "details": ", ".join(f"{name}={value}" for name, value in event["details"].items())}
