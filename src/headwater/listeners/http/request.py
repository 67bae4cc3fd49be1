"""One request of an HTTP client: its head, who sent it, and its body, once that is asked for."""

import asyncio
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from headwater.errors import ErrorCode
from headwater.listeners.http.problem import Rejection
from headwater.security.principals import Principal

if TYPE_CHECKING:
    from headwater.broker.access.guard import Guard
    from headwater.broker.broker import Broker
    from headwater.listeners.http.authentication import HttpAuthentication, Identity
    from headwater.listeners.http.services import HttpServices

# More than one of these would be read differently by different programs (request smuggling), or mean nothing.
_SINGLE = frozenset({"host", "content-length", "content-type", "authorization", "origin", "transfer-encoding"})
QUERY_PARAMETERS_MAX = 64


class Request:
    __slots__ = (
        "_body",
        "_body_needed",
        "_body_waiter",
        "abandonable",
        "authentication",
        "broker",
        "certificate_principal",
        "discards_body",
        "expects_continue",
        "guard",
        "headers",
        "identity",
        "is_body_wanted",
        "is_complete",
        "is_encrypted",
        "is_keep_alive",
        "is_upgrade",
        "method",
        "peer_host",
        "query",
        "refusal",
        "segments",
        "services",
        "target",
        "version",
    )

    def __init__(self, services: "HttpServices", peer_host: str, certificate_principal: Principal) -> None:
        self.services = services
        self.broker: Broker = services.broker
        self.peer_host = peer_host
        self.certificate_principal = certificate_principal
        self.method = ""
        # As it was sent.
        self.target = b""
        self.version = ""
        # By name in small letters.
        self.headers: dict[str, str] = {}
        # The path, decoded; a path that ends in a slash ends with an empty segment.
        self.segments: tuple[str, ...] = ()
        self.query = ""
        self.is_keep_alive = False
        self.is_upgrade = False
        self.is_encrypted = False
        self.expects_continue = False
        # Set by the dispatcher, before any handler sees the request.
        self.authentication: HttpAuthentication
        # The same, where clients have to authenticate first.
        self.guard: Guard
        # What the connection has proved with an earlier request.
        self.identity: Identity | None = None
        # Why the head cannot be served.
        self.refusal: Rejection | None = None
        self.is_complete = False
        self.is_body_wanted = False
        self.discards_body = False
        # Called to let the connection go on reading.
        self._body_needed: Callable[[], None] | None = None
        self._body = bytearray()
        self._body_waiter: asyncio.Future[None] | None = None
        # Whether the request only waits, so that it ends when its client leaves.
        self.abandonable: Callable[[], None] | None = None

    # -- the head, as the parser finds it

    def add_header(self, name: str, value: str) -> None:
        headers = self.headers
        if name in headers:
            if name in _SINGLE:
                self.refuse(400, f"the header field {name} is there twice")
            value = f"{headers[name]}, {value}"
        headers[name] = value

    def refuse(self, status: int, detail: str) -> None:
        if self.refusal is None:
            self.refusal = Rejection(status, detail)

    def read_target(self) -> None:
        """Only the form that clients send to a server, not to a proxy, and only paths that mean what they say."""
        target = self.target
        if not target.startswith(b"/"):
            if target != b"*":
                self.refuse(400, "the target of the request is not a path")
            return
        try:
            path, _, query = target.decode("ascii").partition("?")
            segments = tuple(_decode(each) for each in path[1:].split("/")) if "%" in path else (*path[1:].split("/"),)
        except ValueError:
            self.refuse(400, "the target of the request is not valid: bytes outside of ASCII, or wrong %-encoding")
            return
        if "." in segments or ".." in segments or not all(map(_is_clean, segments)):
            self.refuse(400, "the path has a segment '.' or '..', or a control character")
            return
        self.segments = segments
        self.query = query

    # -- the body

    def await_body(self, needed: Callable[[], None]) -> None:
        self._body_needed = needed

    def add_body(self, data: bytes) -> None:
        self._body += data

    @property
    def body_bytes(self) -> int:
        return len(self._body)

    def wake(self) -> None:
        """The body is complete, or will never be."""
        if self._body_waiter is not None and not self._body_waiter.done():
            self._body_waiter.set_result(None)

    async def body(self) -> bytes:
        """The whole body, decompressed. Raises a Rejection if it is too large."""
        config = self.services.config
        bytes_max = config.headwater_http_body_bytes_max
        if int(self.headers.get("content-length", 0)) > bytes_max:
            raise self._too_large(bytes_max)
        if not self.is_complete and self.refusal is None:
            self.is_body_wanted = True
            self._body_waiter = asyncio.get_running_loop().create_future()
            assert self._body_needed is not None, "the parser has begun it"
            self._body_needed()
            await self._body_waiter
        if self.refusal is not None:
            raise self.refusal
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding == "identity":
            return bytes(self._body)
        if encoding != "gzip":
            raise Rejection(
                415, "the body has a Content-Encoding other than gzip", headers=[("accept-encoding", "gzip")]
            )
        return self._decompressed(bytes_max)

    def _decompressed(self, bytes_max: int) -> bytes:
        decompress = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            # One byte more than may be there tells whether there is more.
            body = decompress.decompress(bytes(self._body), bytes_max + 1)
        except zlib.error:
            raise Rejection(400, "the body is not gzip, as its Content-Encoding says") from None
        if len(body) > bytes_max:
            raise self._too_large(bytes_max)
        if not decompress.eof or decompress.unused_data:
            raise Rejection(400, "the body is not one whole gzip member")
        return body

    def _too_large(self, bytes_max: int) -> Rejection:
        return Rejection(
            413,
            f"the body has more than {bytes_max} bytes (headwater.http.body.bytes.max)",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )

    # -- what handlers ask for

    @property
    def media_type(self) -> str:
        """Of the body, without parameters, in small letters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def accepts(self, media_type: str) -> bool:
        """Whether the client takes an answer of this type."""
        accept = self.headers.get("accept")
        if accept is None:
            return True
        kind = media_type.partition("/")[0]
        accepted = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
        return not accepted.isdisjoint({"*/*", f"{kind}/*", media_type})

    def may_be_abandoned(self) -> None:
        """The request waits from now on: it is cancelled when its client leaves."""
        if self.abandonable is not None:
            self.abandonable()


def parameters_of(query: str) -> Mapping[str, list[str]]:
    """Raises a Rejection."""
    found: dict[str, list[str]] = {}
    if not query:
        return found
    pairs = query.split("&", QUERY_PARAMETERS_MAX)
    if len(pairs) > QUERY_PARAMETERS_MAX:
        raise Rejection(400, f"the query has more than {QUERY_PARAMETERS_MAX} parameters")
    for pair in pairs:
        name, _, value = pair.replace("+", " ").partition("=")
        try:
            found.setdefault(_decode(name), []).append(_decode(value))
        except ValueError:
            raise Rejection(400, "the query has wrong %-encoding") from None
    return found


def _decode(text: str) -> str:
    """Raises ValueError."""
    if "%" not in text:
        return text
    for part in text.split("%")[1:]:
        int(part[:2] if len(part) >= 2 and part[:2].isalnum() else "", 16)
    return unquote_to_bytes(text).decode()


def _is_clean(segment: str) -> bool:
    return segment.isprintable() or not any(char < " " or char == "\x7f" for char in segment)
