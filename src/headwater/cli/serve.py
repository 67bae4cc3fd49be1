"""`headwater serve`: the broker in the foreground, until it is told to stop."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

import click

if TYPE_CHECKING:
    from headwater.config.broker import BrokerConfig
    from headwater.node import Node

logger = logging.getLogger(__name__)


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="The file to read.")
@click.option("--data-dir", metavar="DIR", help="Where all data is kept.  [default: ./headwater-data]")
@click.option(
    "--kafka",
    metavar="HOST:PORT",
    help="Where Kafka clients connect; port 0 takes a free one.  [default: 127.0.0.1:9092]",
)
@click.option("--http", metavar="HOST:PORT", help="Serve HTTP there, too: REST, WebSocket, metrics, health.")
@click.option("--tls-cert", metavar="FILE", help="Speak TLS there, with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its private key, unless it is in the same file.")
@click.option("--tls-ca", metavar="FILE", help="Let only clients in that show a certificate of these authorities.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Any other setting; may be repeated.")
def serve(
    file: Path | None,
    data_dir: str | None,
    kafka: str | None,
    http: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Run a broker in the foreground.

    Prints one line `ready kafka=HOST:PORT data=DIR` when it accepts requests, with `kafka.NAME=HOST:PORT` for each
    further listener. SIGTERM or Ctrl-C stops it cleanly, also during recovery after a crash, which the next start then
    begins again. SIGHUP reloads the settings that may change while it runs.
    `headwater config --reference` explains all settings.
    """
    flags = {**_flags(data_dir, kafka, http, assignments), **_tls_flags(kafka, tls_cert, tls_key, tls_ca)}
    # Neither the start nor requests make reference cycles: looking for them often would take a tenth of the start.
    gc.set_threshold(50_000, 20, 100)
    with _late_ssl():
        import asyncio

    from headwater.listeners.tcp.poller import ServingLoop

    with asyncio.Runner(loop_factory=ServingLoop) as runner:
        runner.run(_serve(file, flags))


@contextmanager
def _late_ssl() -> Generator[None]:
    """Keep asyncio from importing `ssl`: OpenSSL would be 15 % of the memory of an idle broker (31 instead of 26.4 MB).

    A listener that offers TLS imports `ssl` itself. asyncio's own TLS is not available in this process then.
    """
    if "ssl" in sys.modules:
        yield
        return
    # The documented way: None makes an import raise ModuleNotFoundError, which asyncio takes for a Python without TLS.
    sys.modules["ssl"] = cast("ModuleType", None)
    try:
        yield
    finally:
        del sys.modules["ssl"]


def _flags(data_dir: str | None, kafka: str | None, http: str | None, assignments: tuple[str, ...]) -> dict[str, str]:
    flags: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator:
            raise click.UsageError(f"--set {assignment}: expected NAME=VALUE")
        flags[name.strip()] = value
    _refuse_secrets(flags)
    if data_dir is not None:
        flags["log.dir"] = data_dir
    if kafka is not None:
        flags["listeners"] = kafka
    if http is not None:
        flags["headwater.http.listeners"] = http
    return flags


def _refuse_secrets(flags: Mapping[str, str]) -> None:
    if not flags:
        return
    from headwater.config.broker import BrokerConfig
    from headwater.config.listener_overrides import find_overridable
    from headwater.errors import ConfigError

    for name in flags:
        try:
            declared = find_overridable(BrokerConfig, name, "broker")
        except ConfigError:
            # Refused with the other settings.
            continue
        if declared.sensitive:
            raise click.UsageError(
                f"--set {name}: every user of this machine could read the secret in the list of processes; set it in "
                f"headwater.toml or as {declared.variable}"
            )


def _tls_flags(kafka: str | None, certificate: str | None, key: str | None, authorities: str | None) -> dict[str, str]:
    if certificate is None:
        if key is not None or authorities is not None:
            raise click.UsageError("--tls-key and --tls-ca need --tls-cert")
        return {}
    address = kafka or "127.0.0.1:9092"
    if "://" in address or "," in address:
        raise click.UsageError("--tls-cert needs one address without a protocol: --kafka HOST:PORT")
    flags = {"listeners": f"SSL://{address}", "ssl.keystore.location": certificate}
    if key is not None:
        flags["headwater.tls.key.location"] = key
    if authorities is not None:
        flags |= {"ssl.truststore.location": authorities, "ssl.client.auth": "required"}
    return flags


async def _serve(file: Path | None, flags: Mapping[str, str]) -> None:
    import asyncio

    from headwater import logs
    from headwater.config.loader import find_file, load
    from headwater.node import Node

    config = load(flags, os.environ, find_file(file, os.environ)).config
    logs.configure(config.headwater_log_format, config.headwater_log_level)
    node = Node(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(*_: object) -> None:
        if node.is_recovering:
            _end_recovery()
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        # Not the loop's own handlers: the loop runs none of them while the start blocks it.
        signal.signal(number, end)
    await node.start()
    node.broker.live_config.follow(_configure_logs)
    # The objects that exist now live as long as the process: the collector need not visit them again.
    gc.freeze()
    loop.add_signal_handler(signal.SIGHUP, _reload, node, file, flags)
    addresses = " ".join(f"{name}={endpoint}" for name, endpoint in node.addresses.items())
    click.echo(f"ready {addresses} data={node.data_directory}")
    await stop.wait()
    logger.info("stopping")
    await node.stop()
    logger.info("stopped cleanly")


def _end_recovery() -> NoReturn:
    """End the process at once. Recovery may be in the middle of a flush that takes minutes, and may be cut off
    anywhere, as by a crash: the next start begins it again."""
    logger.info("stopped during recovery, which the next start begins again; nothing is lost")
    os._exit(0)


def _configure_logs(config: "BrokerConfig") -> None:
    from headwater import logs

    logs.configure(config.headwater_log_format, config.headwater_log_level)


def _reload(node: "Node", file: Path | None, flags: Mapping[str, str]) -> None:
    from headwater.config.loader import find_file, load
    from headwater.errors import HeadwaterError

    try:
        node.reload(load(flags, os.environ, find_file(file, os.environ)).config)
    except (HeadwaterError, OSError) as error:
        logger.error("settings are not reloaded: %s", error)
        return
    logger.info("settings are reloaded")
