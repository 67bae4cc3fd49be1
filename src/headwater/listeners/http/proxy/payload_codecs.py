"""Codecs of schemas that requests used lately, bounded by the size of the schemas' texts."""

from collections import OrderedDict
from typing import Final

from headwater.broker.schemas.registry import SchemaRegistry
from headwater.coordination.schemas.terms import StoredSchema
from headwater.registry.payloads.codec import Codec, Form, codec_of

# A codec and its parsed schema take about forty times the memory of the text.
TEXT_LENGTH_TOTAL_MAX: Final = 1 << 19
TEXT_LENGTH_MAX: Final = TEXT_LENGTH_TOTAL_MAX // 8

_Key = tuple[str, str, str]


class PayloadCodecs:
    def __init__(self) -> None:
        self._codecs: OrderedDict[_Key, tuple[Codec, int]] = OrderedDict()
        self._length = 0

    async def of(self, registry: SchemaRegistry, stored: StoredSchema) -> Codec:
        """Raises a RegistryRefusal or InvalidSchema."""
        content = stored.content
        # References are subjects of the schema's own context.
        key = content.type.value, content.guid, stored.subject if content.references else ""
        found = self._codecs.pop(key, None)
        if found is None:
            parsed = await registry.parsed(stored.subject, content)
            length = len(content.text)
            codec = await registry.checks.run(length, lambda _limits: codec_of(parsed, Form.JSON))
            found = codec, length
            # Another request may have made the same one meanwhile.
            self._length -= self._codecs.pop(key, (codec, 0))[1]
            if length > TEXT_LENGTH_MAX:
                return codec
            self._length += length
        self._codecs[key] = found
        while self._length > TEXT_LENGTH_TOTAL_MAX:
            self._length -= self._codecs.popitem(last=False)[1][1]
        return found[0]
