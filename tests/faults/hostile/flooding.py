"""Many connections that do nothing, and what each of them costs."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.faults.hostile.watching import Bystander, watched
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import RawClient

# Beside those of the flood: files, the client on the side, the loop's own.
DESCRIPTORS_BESIDE = 200
BYTES_PER_CONNECTION_MAX = 48 * 1024


class Flood(NamedTuple):
    connections: int
    bytes_per_connection: int
    rounds_on_the_side: int


def flood(directory: Path, count: int) -> Flood:
    """So many idle connections, and as many again that are turned away, while a client on the side is served."""
    raise_descriptors(count + DESCRIPTORS_BESIDE)
    # One is the client on the side.
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
    """For this process and those that it starts. Where the system does not allow so many, it says so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise OSError(f"a process may have {hard} files open here, {count} are needed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def vanish(client: RawClient) -> None:
    """With a reset, as a process that was killed with unread bytes, or a machine that came back."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.socket.close()
