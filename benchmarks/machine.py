"""The machine and the software that a result was measured with."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import confluent_kafka


def describe(directory: Path) -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "processor": _line(Path("/proc/cpuinfo"), "model name"),
        "memory": _line(Path("/proc/meminfo"), "MemTotal"),
        "kernel": platform.release(),
        "file system": _file_system(directory),
        "load average before": "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "librdkafka": confluent_kafka.libversion()[0],
        "confluent-kafka": version("confluent-kafka"),
    }


def _line(path: Path, name: str) -> str:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _file_system(directory: Path) -> str:
    """Type and device of the mount that holds `directory`: the one with the longest path above it."""
    mounts: list[tuple[str, str, str]] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, mount, kind = line.split()[:3]
        if directory.resolve().is_relative_to(mount):
            mounts.append((mount, kind, device))
    _, kind, device = max(mounts, key=lambda found: len(found[0]))
    return f"{kind} on {device}"
