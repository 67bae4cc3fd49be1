"""Lists in pages: names in their order, so many at a time, and where the next page begins."""

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec

LIMIT_DEFAULT, LIMIT_MAX = 100, 1_000

Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]


class PageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of a list is wanted."""

    # The most entries of the page.
    limit: Limit = LIMIT_DEFAULT
    # The name behind which the page begins: `next` of the page before.
    after: str = ""


def page_of(names: Iterable[str], query: PageQuery) -> tuple[list[str], str | None]:
    """The names of a page, and the `after` of the next one."""
    found = sorted(name for name in names if name > query.after)
    return found[: query.limit], found[query.limit - 1] if len(found) > query.limit else None
