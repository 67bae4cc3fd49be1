"""Socket options that both the client and the listener set on a TCP connection."""

import socket
from contextlib import suppress


def prepare(connected: socket.socket) -> None:
    """Send small messages without delay (no Nagle), and do not pace connections within this machine."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # This is an optimization only: ignore a peer that has already disconnected, and a system without the option.
    with suppress(OSError):
        if connected.getsockname()[0] == connected.getpeername()[0]:
            # There is no network to be congested. BBR, the default of some systems, would still pace sends with timers:
            # measured, a third less throughput of reads for half as much CPU again.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
