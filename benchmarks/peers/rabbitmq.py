"""RabbitMQ streams: one node whose plugin speaks the stream protocol. Streams are left to the page cache by default."""

import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.peers.package import Package, wait_until_listening
from benchmarks.ports import port_of, reserved_port

# The program of this name in /usr/sbin keeps its data where the package says; this is the one that it calls.
_PROGRAMS = "/usr/lib/rabbitmq/bin"
_SERVER = "rabbitmq-server"
_PLUGINS = "[rabbitmq_stream]."


class Rabbitmq(Package):
    name = "rabbitmq"
    about = "RabbitMQ streams, one node and one replica"
    protocol = "rabbitmq-stream"

    def __init__(self) -> None:
        super().__init__("rabbitmq-server", "epmd", "erl")

    def missing(self) -> str:
        return super().missing() or Package("rabbitmq-server", _SERVER, path=_PROGRAMS).missing()

    def describe(self) -> Mapping[str, str]:
        installed = Path(_PROGRAMS, _SERVER).resolve()
        return {
            "version": installed.parents[1].name.rpartition("-")[2],
            "command": f"{_PROGRAMS}/{_SERVER}",
            "enabled_plugins": _PLUGINS,
            **_settings(5552, {}),
        }

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        with ExitStack() as reserved:
            # The ports stay reserved until the server has them.
            port, mapper, node = (port_of(reserved.enter_context(reserved_port())) for _ in range(3))
            broker = _Node(directory, mapper, _environment(directory, mapper, node, _settings(port, settings)))
            wait_until_listening(broker, f"127.0.0.1:{port}")
        return broker


class _Node(BrokerProcess):
    """A node, and the port mapper that it would start itself and leave behind."""

    def __init__(self, directory: Path, mapper_port: int, environment: Mapping[str, str]) -> None:
        command = ["epmd", "-port", str(mapper_port), "-address", "127.0.0.1"]
        self._mapper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        super().__init__([f"{_PROGRAMS}/{_SERVER}"], directory, environment)

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._end_mapper()

    def kill(self) -> None:
        super().kill()
        self._end_mapper()

    def _end_mapper(self) -> None:
        self._mapper.kill()
        self._mapper.wait()


def _settings(port: int, settings: Mapping[str, str]) -> Mapping[str, str]:
    return {
        "listeners.tcp": "none",
        "stream.listeners.tcp.1": f"127.0.0.1:{port}",
        "stream.advertised_host": "127.0.0.1",
        "stream.advertised_port": str(port),
        "log.file": "false",
        "log.console": "true",
        "log.console.level": "warning",
        **settings,
    }


def _environment(directory: Path, mapper: int, node: int, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Files that the node reads are written first."""
    configuration, plugins = directory / "rabbitmq.conf", directory / "enabled_plugins"
    configuration.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    plugins.write_text(f"{_PLUGINS}\n")
    return {
        **os.environ,
        # Where the node keeps its cookie.
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": "benchmark@localhost",
        "RABBITMQ_DIST_PORT": str(node),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_CONFIG_FILE": str(configuration),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        # The script then becomes the server, instead of a shell that waits for it.
        "RUNNING_UNDER_SYSTEMD": "true",
    }
