"""Schemas as people read them."""

import difflib
from collections.abc import Iterator

from headwater.registry.parsed import SchemaType


def laid_out(text: str, kind: SchemaType) -> str:
    """JSON with one entry a line; a .proto file is laid out already."""
    if kind is SchemaType.PROTOBUF:
        return text.strip()
    import orjson

    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, TypeError):
        # A schema that is a name alone need not be JSON.
        return text.strip()


def differences(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """The lines that differ, with some around them, as `diff -u` shows them."""
    return difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
