"""NATS JetStream with its file store, which is synced every two minutes by default."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.peers.package import Package, wait_until_listening
from benchmarks.ports import port_of, reserved_port


class Nats(Package):
    name = "nats"
    about = "NATS JetStream, file store with its default sync interval"
    protocol = "nats"

    def __init__(self) -> None:
        super().__init__("nats-server", "nats-server")

    def describe(self) -> Mapping[str, str]:
        done = subprocess.run(["nats-server", "--version"], capture_output=True, text=True, check=True)
        return {"version": done.stdout.strip(), "command": " ".join(_command(Path("DIR"), 4222, {}))}

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        with reserved_port() as reserved:
            port = port_of(reserved)
            broker = _Server(_command(directory / "data", port, settings), directory, os.environ)
            wait_until_listening(broker, f"127.0.0.1:{port}")
        return broker


class _Server(BrokerProcess):
    # One that is told to terminate stops as cleanly, but says that it failed.
    stop_signal = signal.SIGINT


def _command(data: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    where = ["--addr", "127.0.0.1", "--port", str(port), "--store_dir", str(data)]
    return ["nats-server", "--jetstream", *where, *(f"--{name}={value}" for name, value in settings.items())]
