"""Peers for what a healthy broker never does: one that answers by a script, and a relay that cuts connections."""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from headwater.client.cluster import Cluster
from headwater.endpoint import Endpoint
from headwater.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.protocol.wire.codec import Request, Response, decode, encode, read_request_header, write_response_header

Script = Callable[[Request], Response | bytes | None]


class Peer:
    """Accepts connections and serves each in a thread."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(*self._listening.getsockname())

    def serve(self, connection: socket.socket) -> None:
        raise AssertionError("a peer says what it does")

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.serve(connection)
            except (OSError, EOFError):
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()


def read_frame(connection: socket.socket) -> bytes:
    return _read(connection, struct.unpack(">i", _read(connection, 4))[0])


def write_frame(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class ScriptedBroker(Peer):
    """Offers the newest version of each API in its script. A script gives a response, raw bytes, or None to hang up."""

    def __init__(self, scripts: Mapping[type[Request], Script] | None = None) -> None:
        self.scripts: dict[type[Request], Script] = {ApiVersionsRequest: lambda _: self.versions(), **(scripts or {})}
        self.requests: list[Request] = []
        super().__init__()

    @property
    def bootstrap(self) -> str:
        return str(self.endpoint)

    def versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=api.api_key, min_version=api.versions.start, max_version=api.versions.stop - 1)
                for api in self.scripts
            ]
        )

    def serve(self, connection: socket.socket) -> None:
        by_key = {request.api_key: request for request in self.scripts}
        flexible = {request.api_key: request.flexible_from for request in self.scripts}
        while True:
            frame = read_frame(connection)
            header = read_request_header(frame, flexible)
            kind = by_key[header.api_key]
            request = decode(kind, header.api_version, frame, header.body_position)
            self.requests.append(request)
            answer = self.scripts[kind](request)
            if answer is None:
                return
            if isinstance(answer, bytes):
                connection.sendall(answer)
                continue
            out = bytearray()
            write_response_header(out, type(answer), header.api_version, header.correlation_id)
            write_frame(connection, bytes(out) + encode(answer, header.api_version))

    def sent(self, kind: type[Request]) -> list[Request]:
        return [request for request in self.requests if type(request) is kind]


class Relay(Peer):
    """A relay between a client and a broker that hangs up instead of passing on responses that `drops` matches."""

    def __init__(self) -> None:
        self.target: Endpoint | None = None
        self.drops: Callable[[int, bytes], bool] = lambda _key, _answer: False
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        assert self.target is not None
        with socket.create_connection(self.target) as behind:
            while True:
                request = read_frame(connection)
                write_frame(behind, request)
                answer = read_frame(behind)
                if self.drops(struct.unpack_from(">h", request)[0], answer):
                    return
                write_frame(connection, answer)


def leading(topics: Mapping[str, int], nodes: Mapping[int, Endpoint]) -> Script:
    """Metadata: every partition of a topic is led by the node of its number, as far as there are so many."""

    def script(request: Request) -> MetadataResponse:
        assert isinstance(request, MetadataRequest)
        ids = list(nodes)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host=endpoint.host, port=endpoint.port)
                for node, endpoint in nodes.items()
            ],
            cluster_id="scripted",
            controller_id=ids[0],
            topics=[
                MetadataResponseTopic(
                    name=name,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index, leader_id=ids[index % len(ids)], replica_nodes=[], isr_nodes=[]
                        )
                        for index in range(count)
                    ],
                )
                for name, count in topics.items()
            ],
        )

    return script


def patient(bootstrap: str) -> Cluster:
    """A cluster whose pauses take no time."""
    return Cluster(bootstrap, sleep=lambda _: None)
