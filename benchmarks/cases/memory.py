"""Resident memory of the broker: idle, with many silent connections, and after much data went through it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.cases.plain_sockets import fill
from benchmarks.figures import Case, Figure
from benchmarks.loads import frames
from benchmarks.processes import resident_bytes
from benchmarks.scale import Scale
from benchmarks.systems import System
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest

CONNECTIONS = 500
API_VERSIONS_VERSION = 3
HELLO = ApiVersionsRequest(client_software_name="benchmark", client_software_version="1")


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    hello = frames.request_frame(HELLO, API_VERSIONS_VERSION)
    with system.start(directory) as broker:
        # The first request loads modules that an idle broker does not need.
        with frames.connect(broker.address) as connection:
            frames.exchange(connection, hello)
        idle = resident_bytes(broker.processes)
        yield Figure("idle", "MB", idle / 1e6)
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                # Each connection sends ApiVersions, as every client does, so that its buffers have been used.
                frames.exchange(stack.enter_context(frames.connect(broker.address)), hello)
            yield Figure(f"{CONNECTIONS} idle connections", "MB", (resident_bytes(broker.processes) - idle) / 1e6)
        fill(system, broker, scale.retained_bytes)
        yield Figure("after bulk produce", "MB", resident_bytes(broker.processes) / 1e6)
        yield Figure("peak", "MB", resident_bytes(broker.processes, "VmHWM") / 1e6)


MEMORY = Case(
    "memory",
    "resident memory: idle, what 500 connections add, after `retained_bytes` (1 GiB, quick 512 MiB) were produced",
    _measure,
)
