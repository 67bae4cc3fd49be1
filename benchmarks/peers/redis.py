"""Redis Streams: data in memory, and every command in a file that is synced once a second."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.peers.package import Package, wait_until_listening
from benchmarks.ports import port_of, reserved_port

# A snapshot beside the file of commands would be written twice.
_SETTINGS = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "bind": "127.0.0.1"}


class Redis(Package):
    name = "redis"
    about = "Redis Streams, appendonly with appendfsync everysec"
    protocol = "redis"

    def __init__(self) -> None:
        super().__init__("redis-server", "redis-server")

    def describe(self) -> Mapping[str, str]:
        done = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
        return {"version": done.stdout.strip(), "command": " ".join(_command(Path("DIR"), 6379, {})), **_SETTINGS}

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        data = directory / "data"
        data.mkdir(exist_ok=True)
        with reserved_port() as reserved:
            port = port_of(reserved)
            broker = BrokerProcess(_command(data, port, {**_SETTINGS, **settings}), directory, os.environ)
            wait_until_listening(broker, f"127.0.0.1:{port}")
        return broker


def _command(data: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    chosen = {"port": str(port), "dir": str(data), **settings}
    return ["redis-server", *(word for name, value in chosen.items() for word in (f"--{name}", value))]
