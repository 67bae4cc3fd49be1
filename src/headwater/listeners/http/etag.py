"""ETags: a client finds out whether a resource is still as it saw it, or changes it only then."""

from collections.abc import Callable
from zlib import crc32

from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request


def etag_of(content: bytes) -> str:
    return f'"{crc32(content):08x}{len(content):x}"'


def check_match(request: Request, current: Callable[[], bytes]) -> None:
    """Refuse a change whose If-Match names another version than the `current` one."""
    wanted = request.headers.get("if-match")
    if wanted is None or wanted.strip() == "*":
        return
    if etag_of(current()) not in {each.strip() for each in wanted.split(",")}:
        raise Rejection(412, "it has been changed since (If-Match)")
