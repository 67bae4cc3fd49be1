"""Many idle connections, and the memory that each of them costs."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.faults.hostile.watching import Bystander, watched
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import RawClient

# Descriptors beside those of the flood: files, the bystander, the event loop.
DESCRIPTORS_BESIDE = 200
BYTES_PER_CONNECTION_MAX = 48 * 1024


class Flood(NamedTuple):
    connections: int
    bytes_per_connection: int
    rounds_on_the_side: int


def flood(directory: Path, count: int) -> Flood:
    """Open this many idle connections, and as many more that are refused, while a bystander is served."""
    raise_descriptors(count + DESCRIPTORS_BESIDE)
    # One connection is the bystander's.
    limits = {"max.connections": str(count + 1), "max.connections.per.ip": str(count + 1)}
    with watched(directory, limits) as broker, ExitStack() as opened:
        bystander = opened.enter_context(Bystander(broker))
        before = broker.memory_bytes()
        for _ in range(count):
            opened.enter_context(RawClient(broker))
        wait_until(lambda: broker.connection_count() == count + 1, "not all connections were accepted")
        each_bytes = (broker.memory_bytes() - before) // count
        assert each_bytes < BYTES_PER_CONNECTION_MAX, f"a connection takes {each_bytes} bytes"
        for _ in range(100):
            with RawClient(broker) as one_too_many:
                assert one_too_many.is_closed()
        bystander.check()
        return Flood(count, each_bytes, bystander.rounds)


def raise_descriptors(count: int) -> None:
    """Raise the descriptor limit for this process and its children; skips if the system does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise OSError(f"a process may have {hard} files open here, {count} are needed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def vanish(client: RawClient) -> None:
    """Close with a TCP reset, like a process that was killed with unread bytes or a rebooted machine."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.socket.close()
