"""Which ids the contents of one context have, and which versions have an id."""

from headwater.coordination.schemas.terms import Content, StoredSchema

# What makes two contents the same.
ContentKey = tuple[str, str]
# A subject and a version.
Place = tuple[str, int]


def key_of(content: Content) -> ContentKey:
    return content.type.value, content.guid


class ContextIds:
    def __init__(self) -> None:
        self.highest = 0
        self.content_by_id: dict[int, Content] = {}
        # In the order in which they were registered.
        self.places_by_id: dict[int, dict[Place, None]] = {}
        self._id_by_key: dict[ContentKey, int] = {}
        self._id_by_guid: dict[str, int] = {}

    def id_of(self, content: Content) -> int | None:
        return self._id_by_key.get(key_of(content))

    def id_of_guid(self, guid: str) -> int | None:
        return self._id_by_guid.get(guid)

    def add(self, schema: StoredSchema) -> None:
        self.highest = max(self.highest, schema.id)
        self.content_by_id.setdefault(schema.id, schema.content)
        self.places_by_id.setdefault(schema.id, {})[schema.subject, schema.version] = None
        key = key_of(schema.content)
        self._id_by_key.setdefault(key, schema.id)
        self._id_by_guid.setdefault(key[1], schema.id)

    def remove(self, schema: StoredSchema) -> None:
        places = self.places_by_id.get(schema.id)
        if places is None:
            return
        places.pop((schema.subject, schema.version), None)
        if not places:
            del self.places_by_id[schema.id]
            content = self.content_by_id.pop(schema.id)
            key = key_of(content)
            if self._id_by_key.get(key) == schema.id:
                del self._id_by_key[key]
                self._id_by_guid.pop(key[1], None)
