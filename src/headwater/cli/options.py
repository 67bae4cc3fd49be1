"""What the commands that talk to a broker share: how to reach it, NAME=VALUE pairs, partitions and points in time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster

BOOTSTRAP = "127.0.0.1:9092"
_CLIENT_CONFIG = "headwater.client_config"
_SERVERS = "bootstrap.servers"

# The largest numbers that a request has room for.
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
    """Adds --bootstrap and --client-config; the latter does not reach the command, but `connect` and
    `client_settings`."""
    client_config = click.option(
        "--client-config",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="HEADWATER_CLIENT_CONFIG",
        show_envvar=True,
        expose_value=False,
        callback=_keep_client_config,
        help="A properties file with settings of a Kafka client: security.*, ssl.*, sasl.* and bootstrap.servers.",
    )
    return address_option(client_config(command))


def _keep_client_config(ctx: click.Context, _: click.Parameter, file: Path | None) -> None:
    ctx.meta[_CLIENT_CONFIG] = file


def client_config_file() -> Path | None:
    return click.get_current_context().meta[_CLIENT_CONFIG]


def client_settings(bootstrap: str) -> dict[str, str]:
    """Where the brokers are and how to talk to them, in the words of a Kafka client."""
    context = click.get_current_context()
    file = client_config_file()
    if file is None:
        return {_SERVERS: bootstrap}
    from headwater.client.security.properties import read_properties
    from headwater.client.security.security import about_security, read_security

    given = read_properties(file)
    settings = about_security(given)
    try:
        read_security(settings)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    is_default = context.get_parameter_source("bootstrap") is ParameterSource.DEFAULT
    return settings | {_SERVERS: given.get(_SERVERS, bootstrap) if is_default else bootstrap}


def connect(bootstrap: str, *, topic_wait_ms: int = 0) -> "Cluster":
    """A topic that does not exist is an error after `topic_wait_ms`: a person who misspelt it should not wait."""
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
    """NAME=VALUE; the value may be empty, may hold further equals signs, and keeps bytes that are no UTF-8."""

    name = "NAME=VALUE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, text = value.partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        if not name.isprintable():
            self.fail(f"{name!r} is no name", param, ctx)
        return name, text


class Chosen(NamedTuple):
    """A topic, and those of its partitions that are meant; None means all."""

    topic: str
    partitions: tuple[int, ...] | None


class ChosenType(click.ParamType[Chosen]):
    name = "TOPIC[:PARTITIONS]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Chosen:
        topic, colon, listed = value.partition(":")
        if not topic:
            self.fail(f"{value!r} names no topic", param, ctx)
        if not colon:
            return Chosen(topic, None)
        numbers = listed.split(",")
        if not all(number.isascii() and number.isdigit() and int(number) <= INT32_MAX for number in numbers):
            self.fail(f"{value!r} is not TOPIC:PARTITIONS, such as orders:0,2", param, ctx)
        return Chosen(topic, tuple(int(number) for number in numbers))


class Moment(click.ParamType[int]):
    """A point in time, as milliseconds since 1970."""

    name = "TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = parse_time(value)
        if found is None:
            self.fail(
                f"{value!r} is neither ISO 8601 (2025-06-01T12:30Z) nor a number of ms (1748781000000ms)", param, ctx
            )
        return found


def parse_time(text: str) -> int | None:
    """ISO 8601, in UTC where it names no zone, or `1748781000000ms`. A bare number is none: it could be anything."""
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
    """ISO 8601 in UTC to the millisecond; None for no timestamp, and for one beyond the calendar."""
    if timestamp_ms < 0:
        return None
    try:
        moment = _EPOCH + timestamp_ms * _MILLISECOND
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
