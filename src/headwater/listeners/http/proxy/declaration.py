"""An operation of the REST proxy, and how it reads bodies and partitions."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from headwater.listeners.http.operation import Handler, Operation, operation
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.proxy.answers import INVALID, ProxyRefusal, partition_not_found
from headwater.listeners.http.proxy.embedded_format import ANSWER_TYPE, MEDIA_TYPES, check_media_type
from headwater.listeners.http.request import Request

T = TypeVar("T")

# Of records, partitions or offsets in one request.
ENTRIES_MAX: Final = 10_000

proxy_operation: Callable[[str, str], Callable[[Handler], Operation]] = partial(
    operation, media_types=MEDIA_TYPES, answer_type=ANSWER_TYPE, tag="rest proxy"
)


async def body_of(request: Request, kind: type[T]) -> T:
    """The body of a request; the empty one of a request that has none."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        check_media_type(request)
        body = await request.body()
    else:
        body = b""
    return read_body(body or b"{}", kind)


def read_body(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ProxyRefusal(INVALID, f"Invalid request: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Rejection(400, f"the body is not valid JSON: {error}") from None


def partition_index(text: str) -> int:
    """The number of a partition in a path."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise partition_not_found(text)
    return int(text)
