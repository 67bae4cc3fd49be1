"""Options and parameter types that commands share: the broker's address, NAME=VALUE pairs, partitions, places of
records, points in time."""

import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.schedule import Place
    from headwater.ids import TopicPartition

BOOTSTRAP = "127.0.0.1:9092"
# Keys of click's context.
_CLIENT_CONFIG, _CLIENT_SET = "headwater.client_config", "headwater.client_set"
_PASSWORD = "headwater.password"  # noqa: S105 (a key, not a secret)
_SERVERS = "bootstrap.servers"

# The largest values of integer fields in requests.
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

Command = TypeVar("Command", bound=Callable[..., object])


def address_option(command: Command) -> Command:
    """Adds --bootstrap, which reaches the command as `bootstrap`."""
    return click.option(
        "--bootstrap",
        metavar="HOST:PORT,...",
        default=BOOTSTRAP,
        envvar="HEADWATER_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        help="The broker to ask; of a cluster, one or more.",
    )(command)


def bootstrap_option(command: Command) -> Command:
    """Adds --bootstrap, --client-config and --client-set."""
    return address_option(client_config_option(command))


def client_config_option(command: Command) -> Command:
    """Adds --client-config and --client-set. They are not parameters of the command: `connect` and `client_settings`
    read them from click's context."""
    client_config = click.option(
        "--client-config",
        "--command-config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="HEADWATER_CLIENT_CONFIG",
        show_envvar=True,
        expose_value=False,
        callback=_keep_client_config,
        help="A properties file with settings of a Kafka client: security.*, ssl.*, sasl.*, bootstrap.servers; "
        "those of a schema registry begin with schema.registry.",
    )
    client_set = click.option(
        "--client-set",
        "-X",
        type=Assignment(),
        multiple=True,
        expose_value=False,
        callback=_keep_client_set,
        help="One such setting, over those of the file; may be repeated. Secrets belong in the file.",
    )
    return client_config(client_set(command))


def _keep_client_config(ctx: click.Context, _: click.Parameter, file: Path | None) -> None:
    ctx.meta[_CLIENT_CONFIG] = file


def _keep_client_set(ctx: click.Context, _: click.Parameter, pairs: tuple[tuple[str, str], ...]) -> None:
    if pairs:
        from headwater.client.registry.settings import SECRETS as SECRETS_OF_REGISTRY
        from headwater.client.security.security_settings import SECRETS

        for name in sorted((SECRETS | SECRETS_OF_REGISTRY) & dict(pairs).keys()):
            raise click.UsageError(
                f"{name} is a secret, which every user of this machine could read in the list of processes: put it "
                "into a file for --client-config"
            )
    ctx.meta[_CLIENT_SET] = dict(pairs)


def client_config_file() -> Path | None:
    return click.get_current_context().meta[_CLIENT_CONFIG]


def client_set() -> dict[str, str]:
    """What --client-set gives."""
    return click.get_current_context().meta[_CLIENT_SET]


def client_settings(bootstrap: str, *, asks: bool = True) -> dict[str, str]:
    """Return the brokers' addresses and the security settings, as settings of a Kafka client. With `asks`, a person who
    has given a name and no password is asked for it."""
    context = click.get_current_context()
    file, chosen = client_config_file(), client_set()
    if file is None and not chosen:
        return {_SERVERS: bootstrap}
    from headwater.client.security.properties import read_properties
    from headwater.client.security.security import about_security, read_security

    given = ({} if file is None else read_properties(file)) | chosen
    settings = _with_password(about_security(given)) if asks else about_security(given)
    try:
        read_security(settings)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}" if file is not None else str(error)) from None
    is_default = context.get_parameter_source("bootstrap") is ParameterSource.DEFAULT
    return settings | {_SERVERS: given.get(_SERVERS, bootstrap) if is_default else bootstrap}


def _with_password(settings: dict[str, str]) -> dict[str, str]:
    """A person who has given a name and no password is asked for it, once."""
    if "sasl.username" not in settings or "sasl.password" in settings or not sys.stdin.isatty():
        return settings
    meta = click.get_current_context().meta
    if _PASSWORD not in meta:
        meta[_PASSWORD] = click.prompt(f"Password of {settings['sasl.username']}", hide_input=True, err=True)
    return {**settings, "sasl.password": meta[_PASSWORD]}


def connect(bootstrap: str, *, topic_wait_ms: int = 0) -> "Cluster":
    """Connect as --bootstrap, --client-config and --client-set say. A missing topic is an error after `topic_wait_ms`,
    by default at once: a person who misspelt its name should not wait."""
    from headwater.client.cluster import Cluster
    from headwater.client.security.security import read_security

    settings = client_settings(bootstrap)
    return Cluster(
        settings[_SERVERS],
        security=read_security(settings),
        client_id="headwater-cli",
        topic_wait_ms=topic_wait_ms,
    )


class Assignment(click.ParamType[tuple[str, str]]):
    """NAME=VALUE. The value may be empty and may contain equals signs. Bytes that are not UTF-8 are kept."""

    name = "NAME=VALUE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, text = value.partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        if not name.isprintable():
            self.fail(f"{name!r} is no name", param, ctx)
        return name, text


class TopicSelection(NamedTuple):
    """A topic and the selected partitions of it; None selects all."""

    topic: str
    partitions: tuple[int, ...] | None


class TopicSelectionType(click.ParamType[TopicSelection]):
    name = "TOPIC[:PARTITIONS]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> TopicSelection:
        topic, colon, listed = value.partition(":")
        if not topic:
            self.fail(f"{value!r} names no topic", param, ctx)
        if not colon:
            return TopicSelection(topic, None)
        numbers = listed.split(",")
        if not all(number.isascii() and number.isdigit() and int(number) <= INT32_MAX for number in numbers):
            self.fail(f"{value!r} is not TOPIC:PARTITIONS, such as orders:0,2", param, ctx)
        return TopicSelection(topic, tuple(int(number) for number in numbers))


def selected_partitions(cluster: "Cluster", selections: "Iterable[TopicSelection]") -> "set[TopicPartition]":
    """Return the partitions that the selections name. It is an error if one does not exist."""
    from headwater.ids import TopicName, TopicPartition

    partitions: set[TopicPartition] = set()
    for topic, indexes in selections:
        known = range(len(cluster.topic(topic).partitions))
        for index in known if indexes is None else indexes:
            partition = TopicPartition(TopicName(topic), index)
            cluster.partition(partition)
            partitions.add(partition)
    return partitions


def with_leader(cluster: "Cluster", partitions: "Iterable[TopicPartition]") -> "list[TopicPartition]":
    """Keep the partitions that exist and have a leader to ask."""
    from headwater.client.cluster import NO_LEADER
    from headwater.client.errors import UnknownTopic

    led: list[TopicPartition] = []
    for partition in partitions:
        try:
            if cluster.partition(partition).leader != NO_LEADER:
                led.append(partition)
        except UnknownTopic:
            continue
    return led


class PlaceType(click.ParamType["Place"]):
    """PARTITION-OFFSET. `hint` is what else the user may have meant."""

    name = "PLACE"

    def __init__(self, hint: str = "") -> None:
        self._hint = hint

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> "Place":
        from headwater.client.schedule import Place

        partition, dash, offset = value.partition("-")
        is_place = dash and all(each.isascii() and each.isdigit() and len(each) <= 19 for each in (partition, offset))
        if not is_place or int(partition) > INT32_MAX or int(offset) > INT64_MAX:
            self.fail(f"{value!r} is no place, such as 0-17{self._hint}", param, ctx)
        return Place(int(partition), int(offset))


class Moment(click.ParamType[int]):
    """A point in time, converted to milliseconds since 1970."""

    name = "TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = parse_time(value)
        if found is None:
            self.fail(
                f"{value!r} is neither ISO 8601 (2025-06-01T12:30Z) nor a number of ms (1748781000000ms)", param, ctx
            )
        return found


def parse_time(text: str) -> int | None:
    """Parse ISO 8601 (UTC if it names no zone) or `1748781000000ms`. A bare number is refused: its unit is unknown."""
    if text.endswith("ms") and text[:-2].isascii() and text[:-2].isdigit() and len(text) <= 20:
        return int(text[:-2])
    if text.isdigit():
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def time_text(timestamp_ms: int) -> str | None:
    """Format a timestamp as ISO 8601 in UTC to the millisecond. None if it is negative (no timestamp) or after the year
    9999."""
    if timestamp_ms < 0:
        return None
    try:
        moment = _EPOCH + timestamp_ms * _MILLISECOND
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
