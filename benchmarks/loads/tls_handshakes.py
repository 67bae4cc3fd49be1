"""Clients that connect, finish their TLS handshake, and leave: each handshake is a full one."""

import socket
import time
from collections.abc import Callable

from benchmarks.clients import Outcome
from benchmarks.loads.access import HOST, Access
from benchmarks.loads.frames import TIMEOUT_S
from benchmarks.processes import Meter
from headwater.endpoint import Endpoint


def shake_hands(ready: Callable[[], None], address: str, access: Access, seconds: float) -> Outcome:
    """One after the other; records of the outcome are handshakes."""
    context, endpoint = access.context(), Endpoint.parse(address)
    _shake(context.wrap_socket, endpoint)
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    count = 0
    while time.perf_counter() < started + seconds:
        _shake(context.wrap_socket, endpoint)
        count += 1
    return Outcome(time.perf_counter() - started, count, 0, meter.read())


def _shake(wrap: Callable[..., socket.socket], endpoint: Endpoint) -> None:
    with socket.create_connection(endpoint, TIMEOUT_S) as connected, wrap(connected, server_hostname=HOST):
        pass
