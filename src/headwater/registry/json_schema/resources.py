"""Where a `$ref` leads: inside the document, or into one that the schema refers to by name. Nothing is fetched."""

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import unquote, urldefrag, urljoin

from headwater.registry.errors import InvalidSchema

# Schemas of schemas, which allow any schema.
_METASCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")


class Resources:
    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self._root = root
        self.base = _identifier(root) or ""
        # Documents, and parts of them that have an id, by their URIs.
        self._by_uri: dict[str, Any] = {}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._index(root, "")
        for name, document in references.items():
            self._by_uri.setdefault(urldefrag(name).url, document)
            self._by_uri.setdefault(urldefrag(urljoin(self.base, name)).url, document)
            self._index(document, urldefrag(urljoin(self.base, name)).url)

    def base_of(self, schema: dict[str, Any], base: str) -> str:
        """The base for URIs inside the schema."""
        identifier = _identifier(schema)
        return urljoin(base, identifier) if identifier is not None else base

    def find(self, reference: str, base: str) -> tuple[Any, str]:
        """The schema that the reference leads to, and the base for URIs in it."""
        uri, fragment = urldefrag(urljoin(base, reference))
        name = urldefrag(reference).url
        if not name and (uri == urldefrag(self.base).url or uri not in self._by_uri):
            # Inside of the same document, which needs no id for it.
            document, uri = (self._by_uri[base], base) if base in self._by_uri else (self._root, uri)
        elif uri in self._by_uri:
            document = self._by_uri[uri]
        elif name in self._by_uri:
            document, uri = self._by_uri[name], name
        elif uri.startswith(_METASCHEMAS):
            return True, uri
        else:
            raise InvalidSchema(f"$ref '{reference}' leads nowhere: no reference has that name, and nothing is fetched")
        if fragment and not fragment.startswith("/"):
            for space in (uri, base):
                if (space, fragment) in self._anchors:
                    return self._anchors[space, fragment], space
            raise InvalidSchema(f"$ref '{reference}': there is no such anchor")
        return self._follow(document, fragment, uri, reference)

    def _follow(self, document: Any, pointer: str, base: str, reference: str) -> tuple[Any, str]:
        found: Any = document
        for token in pointer.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            try:
                index = int(key) if isinstance(found, list) else key
                found = cast("dict[Any, Any]", found)[index]
            except (KeyError, IndexError, ValueError, TypeError):
                raise InvalidSchema(f"$ref '{reference}' leads nowhere: there is no '{key}'") from None
            if isinstance(found, dict):
                base = self.base_of(cast("dict[str, Any]", found), base)
        return cast("Any", found), base

    def _index(self, document: Any, base: str) -> None:
        """Find every id and anchor. A list, not recursion, for a document may be nested as deeply as JSON may."""
        left: list[tuple[Any, str]] = [(document, base)]
        while left:
            each, base = left.pop()
            if isinstance(each, list):
                left += [(item, base) for item in cast("list[Any]", each)]
            elif isinstance(each, dict):
                schema = cast("dict[str, Any]", each)
                identifier = _identifier(schema)
                if identifier is not None:
                    base = urljoin(base, identifier)
                    uri, fragment = urldefrag(base)
                    if fragment:
                        self._anchors.setdefault((uri, fragment), schema)
                    else:
                        self._by_uri.setdefault(uri, schema)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    anchor = schema.get(keyword)
                    if isinstance(anchor, str):
                        self._anchors.setdefault((urldefrag(base).url, anchor), schema)
                left += [(value, base) for value in schema.values()]


def _identifier(schema: Any) -> str | None:
    if not isinstance(schema, dict):
        return None
    identifier = cast("dict[str, Any]", schema).get("$id", cast("dict[str, Any]", schema).get("id"))
    return identifier if isinstance(identifier, str) else None
