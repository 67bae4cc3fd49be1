"""The floor: what this machine achieves with hardly any broker, in the same run. No other figure can be better.

The goals stem from another machine. Where the floor itself is above a goal, the goal is out of reach here.
"""

import asyncio
import multiprocessing
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import page_cache
from benchmarks.figures import Case, Figure
from benchmarks.loads.frames import connect
from benchmarks.scale import MIB, Scale
from benchmarks.systems import System
from headwater import tcp

FILE_BYTES = 64 * MIB
SENDFILE_BYTES = 2048 * MIB
RECEIVED_BYTES = 1024 * MIB
CONNECTIONS = 64
REQUESTS = 40_000
REQUEST_BYTES, REPLY_BYTES = 250, 60


def _in_child(serve: Callable[[socket.socket], None], drive: Callable[[str], float]) -> tuple[float, float]:
    """Run `serve` on a listening socket in a child process; returns the result of `drive` and the child's CPU time."""
    context = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        used = context.Value("d", 0.0)

        def run() -> None:
            before = time.process_time()
            serve(listening)
            used.value = time.process_time() - before

        child = context.Process(target=run)
        child.start()
        port = listening.getsockname()[1]
        measured = drive(f"127.0.0.1:{port}")
        child.join()
    return measured, used.value


def _sendfile(directory: Path) -> Iterator[Figure]:
    path = directory / "bytes"
    path.write_bytes(bytes(FILE_BYTES))

    def serve(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        tcp.prepare(connected)
        with connected, path.open("rb") as file:
            for _ in range(SENDFILE_BYTES // FILE_BYTES):
                position = 0
                while position < FILE_BYTES:
                    position += os.sendfile(connected.fileno(), file.fileno(), position, FILE_BYTES - position)

    def drive(address: str) -> float:
        buffer = bytearray(MIB)
        with connect(address) as connected:
            started = time.perf_counter()
            while connected.recv_into(buffer):
                pass
        return time.perf_counter() - started

    seconds, used = _in_child(serve, drive)
    yield Figure("sendfile to a socket", "MB/s", SENDFILE_BYTES / seconds / 1e6)
    yield Figure("sendfile to a socket: CPU", "s/GB", used / SENDFILE_BYTES * 1e9)


def _receive(directory: Path) -> Iterator[Figure]:
    path = directory / "received"
    page_cache.prepare(directory, RECEIVED_BYTES)

    def serve(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        tcp.prepare(connected)
        buffer = memoryview(bytearray(MIB))
        with connected, path.open("wb", buffering=0) as file:
            position = 0
            while received := connected.recv_into(buffer):
                position += os.pwritev(file.fileno(), [buffer[:received]], position)

    def drive(address: str) -> float:
        data = bytes(MIB)
        started = time.perf_counter()
        with connect(address) as connected:
            for _ in range(RECEIVED_BYTES // MIB):
                connected.sendall(data)
        return time.perf_counter() - started

    seconds, used = _in_child(serve, drive)
    yield Figure("socket to a file", "MB/s", RECEIVED_BYTES / seconds / 1e6)
    yield Figure("socket to a file: CPU", "s/GB", used / RECEIVED_BYTES * 1e9)


def _echo() -> Iterator[Figure]:
    def serve(listening: socket.socket) -> None:
        asyncio.run(_serve_echo(listening))

    def drive(address: str) -> float:
        connections = [connect(address) for _ in range(CONNECTIONS)]
        poll = selectors.DefaultSelector()
        started = time.perf_counter()
        for connection in connections:
            poll.register(connection, selectors.EVENT_READ)
            connection.sendall(bytes(REQUEST_BYTES))
        sent, received = CONNECTIONS, 0
        while received < REQUESTS:
            for key, _ in poll.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                connection.recv(REPLY_BYTES)
                received += 1
                if sent < REQUESTS:
                    sent += 1
                    connection.sendall(bytes(REQUEST_BYTES))
        seconds = time.perf_counter() - started
        for connection in connections:
            connection.close()
        return seconds

    seconds, used = _in_child(serve, drive)
    yield Figure("asyncio echo, 64 connections", "requests/s", REQUESTS / seconds)
    yield Figure("asyncio echo, 64 connections: CPU", "us/request", used / REQUESTS * 1e6)


async def _serve_echo(listening: socket.socket) -> None:
    """Receives and replies from reader callbacks, with no protocol in between."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    reply = bytes(REPLY_BYTES)
    still_open = CONNECTIONS

    def answer(connected: socket.socket) -> None:
        nonlocal still_open
        if connected.recv(4096):
            connected.send(reply)
            return
        loop.remove_reader(connected)
        connected.close()
        still_open -= 1
        if not still_open:
            done.set()

    listening.setblocking(False)
    for _ in range(CONNECTIONS):
        connected, _ = await loop.sock_accept(listening)
        tcp.prepare(connected)
        loop.add_reader(connected, answer, connected)
    await done.wait()


def _interpreter() -> Iterator[Figure]:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import asyncio, click"], check=True)
    yield Figure("Python with asyncio and click", "ms", (time.perf_counter() - started) * 1000)


def _floor(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:  # noqa: ARG001 (there is no system)
    yield from _receive(directory)
    yield from _sendfile(directory)
    yield from _echo()
    yield from _interpreter()


FLOOR = Case(
    "floor",
    "hardly any broker at all: the system calls of a produce, a fetch, a small request, a start",
    _floor,
    why_headwater_only="it measures the machine, not a broker",
)
