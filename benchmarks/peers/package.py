"""What all servers of Debian's packages have in common: the programs that a package brings, and the wait for a port."""

import shutil
import socket
import time
from collections.abc import Mapping

from benchmarks.broker_process import START_TIMEOUT_S, BrokerProcess
from headwater.endpoint import Endpoint

# Short beside what is measured: the fastest of them takes some ten milliseconds.
_PAUSE_S = 0.001


class Package:
    """A server whose programs one package brings. How it flushes is a setting of the whole server, and always the
    same."""

    def __init__(self, name: str, *programs: str, path: str | None = None) -> None:
        self._name = name
        self._programs = programs
        self._path = path

    def missing(self) -> str:
        for program in self._programs:
            if shutil.which(program, path=self._path) is None:
                return f"{program} is not on the PATH; `apt-get install {self._name}` brings it"
        return ""

    def topic_settings(self, flush: str) -> Mapping[str, str]:  # noqa: ARG002 (there is one way)
        return {}

    def broker_settings(self, flush: str) -> Mapping[str, str]:  # noqa: ARG002 (there is one way)
        return {}


def wait_until_listening(broker: BrokerProcess, address: str) -> None:
    """None of these servers listens before it can serve."""
    try:
        _wait(broker, Endpoint.parse(address))
    except BaseException:
        broker.kill()
        raise
    broker.address = address


def _wait(broker: BrokerProcess, endpoint: Endpoint) -> None:
    deadline = broker.started + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(endpoint, START_TIMEOUT_S).close()
        except ConnectionRefusedError as error:
            if time.monotonic() > deadline or not broker.is_running:
                said = broker.output.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the server did not start; it said:\n{said}") from error
        else:
            return
        time.sleep(_PAUSE_S)
