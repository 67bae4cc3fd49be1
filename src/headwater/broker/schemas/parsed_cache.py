"""Schemas that were parsed lately, bounded by the size of their texts."""

from collections import OrderedDict
from collections.abc import Mapping

from headwater.coordination.schemas.terms import Content
from headwater.registry.formats import parse
from headwater.registry.limits import Limits
from headwater.registry.parsed import Document, ParsedSchema

# A parsed schema takes about twenty times the memory of its text.
TEXT_LENGTH_TOTAL_MAX = 1 << 20
# Larger ones would put all others out.
TEXT_LENGTH_MAX = TEXT_LENGTH_TOTAL_MAX // 8

_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class ParsedCache:
    """Used by the event loop and by threads: the dictionary is changed by single operations of the interpreter."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[_Key, ParsedSchema] = OrderedDict()
        self._length = 0

    def parsed(self, content: Content, resolved: Mapping[str, str], limits: Limits) -> ParsedSchema:
        key = content.type.value, content.text, tuple(resolved.items())
        found = self._parsed.pop(key, None)
        if found is None:
            found = parse(Document(content.type, content.text, resolved), limits)
            length = _length(key)
            if length > TEXT_LENGTH_MAX:
                return found
            self._length += length
        self._parsed[key] = found
        while self._length > TEXT_LENGTH_TOTAL_MAX and self._parsed:
            self._length -= _length(self._parsed.popitem(last=False)[0])
        return found


def _length(key: _Key) -> int:
    return len(key[1]) + sum(len(text) for _, text in key[2])
