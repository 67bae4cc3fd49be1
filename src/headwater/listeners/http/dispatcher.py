"""From a request to its answer: the host, the origin, who the client is, the operation, and what became of it.

Every request passes this one place, so that no route can forget a check. Who the client is comes before what it asks
for: a client that has not authenticated learns nothing about paths.
"""

import asyncio
import gzip
import logging
import re
from http import HTTPStatus

from headwater.broker.measurements import NOT_TIMED, TIMED_EVERY
from headwater.broker.pending import Fault
from headwater.config.broker import BrokerConfig
from headwater.config.listeners import ListenerAddress
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.http.authentication import HttpAuthentication
from headwater.listeners.http.operation import Operation
from headwater.listeners.http.problem import Rejection, render_problem
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Answer, Headers, Response, Stream
from headwater.listeners.http.router import Match
from headwater.listeners.http.services import HttpServices

logger = logging.getLogger(__name__)

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PREFLIGHT_AGE_S = 600
_CORS_HEADERS = "authorization, content-type, idempotency-key, if-match, last-event-id"
# Below it, the head of the response and the work outweigh what is saved.
GZIP_BYTES_MIN = 1400
# From here on in a thread: it takes about 10 ms/MB.
_GZIP_INLINE_BYTES_MAX = 64 * 1024
_GZIP_LEVEL = 1
_COMPRESSIBLE = ("application/json", "application/problem+json", "application/vnd.", "text/")
_WRONG_ORIGIN = "pages of this origin may not do this (headwater.http.cors.origins)"
_UNHANDLED = "this is a fault of the broker; its log has more"


class Dispatcher:
    """For one listener."""

    def __init__(self, services: HttpServices, address: ListenerAddress, authentication: HttpAuthentication) -> None:
        self._services = services
        self._address = address
        self.authentication = authentication
        self._hosts: frozenset[str] = frozenset()
        self._origins: frozenset[str] = frozenset()
        services.broker.live_config.follow(lambda config: self._use(config.of_listener(address.name)))

    def _use(self, config: BrokerConfig) -> None:
        self._hosts = frozenset(each.lower() for each in config.headwater_http_hosts)
        if not self._hosts and self._address.bound.loopback:
            # A page that has its own name resolve to this machine (DNS rebinding) does not get in.
            self._hosts = _LOOPBACK_HOSTS | {self._address.bound.host.lower()}
        self._origins = config.headwater_http_cors_origins

    async def answer(self, request: Request) -> Answer:
        """Raises nothing but CancelledError."""
        match: Match | None = None
        found: Operation | None = None
        began_us = NOT_TIMED
        request.is_encrypted = self._address.protocol.is_encrypted
        try:
            self._check_head(request)
            match = self._services.router.find(request.segments)
            found = self._operation(match, request.method)
            if found is not None:
                measured = self._services.broker.measurements.request(found.name)
                measured.count += 1
                began_us = NOT_TIMED if measured.count % TIMED_EVERY else measured.now_us()
            answer = await self._answer(request, match, found)
        except Exception as error:
            answer = self._refused(error, match, request, found)
        if isinstance(answer, Response):
            answer = await self._finished(request, answer)
        elif isinstance(answer, Stream):
            answer = answer._replace(headers=[*answer.headers, *self._cors(request)])
        if found is not None and began_us:
            self._services.broker.measurements.request(found.name).end(began_us)
        return answer

    @staticmethod
    def _operation(match: Match | None, method: str) -> Operation | None:
        if match is None:
            return None
        found = match.methods.get("GET" if method == "HEAD" else method)
        return None if found is None else found[0]

    async def _answer(self, request: Request, match: Match | None, found: Operation | None) -> Answer:
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return self._preflight(match)
        request.authentication = self.authentication
        if found is None or not found.is_open:
            request.guard = await self.authentication.identify(request)
        if match is None:
            raise Rejection(404, "there is nothing at this path", code=ErrorCode.RESOURCE_NOT_FOUND)
        if found is None:
            return self._not_allowed(match, request.method)
        _, names = match.methods[found.method]
        answer = await found.call(request, dict(zip(names, match.values, strict=True)))
        if not isinstance(answer, Response):
            self._services.check_stream_count()
            if not self.is_origin_allowed(request):
                # A browser would not show it to the page, or not ask (WebSocket), and it would stay open.
                raise Rejection(403, _WRONG_ORIGIN)
        return answer

    # -- what is checked of every head

    def _check_head(self, request: Request) -> None:
        if request.refusal is not None:
            raise request.refusal
        host = request.headers.get("host")
        if host is None:
            if request.version != "1.0":
                raise Rejection(400, "the request has no Host")
        else:
            matched = _HOST.fullmatch(host)
            if matched is None:
                raise Rejection(400, "the Host of the request is malformed")
            if self._hosts and matched["name"].lower() not in self._hosts:
                raise Rejection(421, f"this broker is not called {matched['name'][:100]!r} (headwater.http.hosts)")
        if request.method not in _SAFE_METHODS and not self.is_origin_allowed(request):
            # Browsers send some requests of other origins without asking first.
            raise Rejection(403, _WRONG_ORIGIN)

    def is_origin_allowed(self, request: Request) -> bool:
        """Whether a page may use this listener; always, if no page sent the request."""
        origin = request.headers.get("origin")
        if origin is None or origin in self._origins:
            return True
        scheme = "https" if self._address.protocol.is_encrypted else "http"
        return origin == f"{scheme}://{request.headers.get('host', '').lower()}"

    def _preflight(self, match: Match | None) -> Response:
        """Whether a page of another origin may send a request. The answer is completed by `_cors`."""
        methods = "GET" if match is None else ", ".join(sorted(match.methods))
        return Response(
            204,
            b"",
            "",
            [
                ("access-control-allow-methods", methods),
                (
                    "access-control-allow-headers",
                    _CORS_HEADERS,
                ),
                ("access-control-max-age", str(_PREFLIGHT_AGE_S)),
            ],
        )

    def _cors(self, request: Request) -> Headers:
        if not self._origins:
            return ()
        origin = request.headers.get("origin")
        if origin not in self._origins:
            return (("vary", "origin"),)
        return (
            ("access-control-allow-origin", str(origin)),
            ("access-control-allow-credentials", "true"),
            ("access-control-expose-headers", "etag, location, retry-after"),
            ("vary", "origin"),
        )

    # -- what became of it

    @staticmethod
    def _not_allowed(match: Match, method: str) -> Response:
        methods = ["OPTIONS", *match.methods, *(("HEAD",) if "GET" in match.methods else ())]
        allow = [("allow", ", ".join(sorted(methods)))]
        if method == "OPTIONS":
            return Response(204, b"", "", allow)
        return match.render_error(Rejection(405, f"{method[:20]} is not possible here", headers=allow))

    def _refused(self, error: Exception, match: Match | None, request: Request, found: Operation | None) -> Response:
        if isinstance(error, HeadwaterError):
            refusal = error
        else:
            cause = error.cause if isinstance(error, Fault) else error
            what = found.name if found is not None else request.method
            logger.error("a request of %s cannot be answered: %s", request.peer_host, what, exc_info=cause)
            self._services.broker.measurements.replies_failed.value += 1
            refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, _UNHANDLED)
        if found is not None:
            self._services.broker.measurements.request(found.name).errors[refusal.code] += 1
        render = render_problem if match is None else match.render_error
        return render(refusal)

    async def _finished(self, request: Request, response: Response) -> Response:
        headers = [*response.headers, *self._cors(request)]
        etag = next((value for name, value in response.headers if name == "etag"), None)
        if etag is not None and request.method in ("GET", "HEAD") and _has_etag(request, etag):
            return Response(304, b"", "", headers)
        if len(response.body) >= GZIP_BYTES_MIN and response.content_type.startswith(_COMPRESSIBLE):
            headers.append(("vary", "accept-encoding"))
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers.append(("content-encoding", "gzip"))
                return response._replace(body=await _compressed(response.body), headers=headers)
        return response._replace(headers=headers) if headers else response


def _has_etag(request: Request, etag: str) -> bool:
    known = request.headers.get("if-none-match", "")
    return known == "*" or etag in {each.strip().removeprefix("W/") for each in known.split(",")}


async def _compressed(body: bytes) -> bytes:
    if len(body) <= _GZIP_INLINE_BYTES_MAX:
        return gzip.compress(body, _GZIP_LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)


def reason_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
