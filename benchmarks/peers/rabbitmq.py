"""RabbitMQ, one node: streams, which a plugin serves and which are left to the page cache, or queues.

Queues are durable and get persistent messages, whose confirms wait for a sync of the disk by default: of a quorum
queue's write-ahead log, of a classic queue's store.
"""

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
_LOG = {"log.file": "false", "log.console": "true", "log.console.level": "warning"}


class Rabbitmq(Package):
    name = "rabbitmq"
    about = "RabbitMQ streams, one node and one replica"
    protocol = "rabbitmq-stream"
    _plugins = "[rabbitmq_stream]."
    _usual_port = 5552

    def __init__(self) -> None:
        super().__init__("rabbitmq-server", "epmd", "erl")

    def missing(self) -> str:
        return super().missing() or Package("rabbitmq-server", _SERVER, path=_PROGRAMS).missing()

    def describe(self) -> Mapping[str, str]:
        installed = Path(_PROGRAMS, _SERVER).resolve()
        return {
            "version": installed.parents[1].name.rpartition("-")[2],
            "command": f"{_PROGRAMS}/{_SERVER}",
            "enabled_plugins": self._plugins,
            **_LOG,
            **self._listeners(self._usual_port),
        }

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        with ExitStack() as reserved:
            # The ports stay reserved until the server has them.
            port, mapper, node = (port_of(reserved.enter_context(reserved_port())) for _ in range(3))
            chosen = {**_LOG, **self._listeners(port), **settings}
            broker = _Node(directory, mapper, _environment(directory, mapper, node, chosen, self._plugins))
            wait_until_listening(broker, f"127.0.0.1:{port}")
        return broker

    def _listeners(self, port: int) -> Mapping[str, str]:
        return {
            "listeners.tcp": "none",
            "stream.listeners.tcp.1": f"127.0.0.1:{port}",
            "stream.advertised_host": "127.0.0.1",
            "stream.advertised_port": str(port),
        }


class RabbitmqQueues(Rabbitmq):
    """The same server without plugins, for queues of one type."""

    protocol = "amqp"
    _plugins = "[]."
    _usual_port = 5672

    def __init__(self, queue_type: str) -> None:
        super().__init__()
        self.name = f"rabbitmq-{queue_type}"
        self.about = f"RabbitMQ's {queue_type} queues, one node"
        self._queue_type = queue_type

    def topic_settings(self, flush: str) -> Mapping[str, str]:  # noqa: ARG002 (there is one way)
        return {"x-queue-type": self._queue_type}

    def _listeners(self, port: int) -> Mapping[str, str]:
        return {"listeners.tcp.1": f"127.0.0.1:{port}"}


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


def _environment(
    directory: Path, mapper: int, node: int, settings: Mapping[str, str], enabled_plugins: str
) -> Mapping[str, str]:
    """Files that the node reads are written first."""
    configuration, plugins = directory / "rabbitmq.conf", directory / "enabled_plugins"
    configuration.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    plugins.write_text(f"{enabled_plugins}\n")
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
