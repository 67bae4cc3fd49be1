"""An operation of the registry: its media types, and the parameters that many have."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from headwater.listeners.http.operation import Handler, Operation, operation

T = TypeVar("T")

ANSWER_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES: Final = (
    ANSWER_TYPE,
    "application/vnd.schemaregistry+json",
    "application/json",
    "application/octet-stream",
)
# As in Confluent's registry, a limit that is not positive is none; the list is then cut off here.
PAGE_MAX: Final = 1000

registry_operation: Callable[[str, str], Callable[[Handler], Operation]] = partial(
    operation, media_types=MEDIA_TYPES, answer_type=ANSWER_TYPE, tag="schema registry"
)


class Page(msgspec.Struct, kw_only=True):
    """A part of a list."""

    offset: int = 0
    limit: int = -1


def page_of(items: list[T], page: Page) -> list[T]:
    begin = max(page.offset, 0)
    return items[begin : begin + (page.limit if 0 < page.limit <= PAGE_MAX else PAGE_MAX)]
