"""What all formats of schemas have in common: references, the parsed schema, and its comparison with another."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

import orjson

from headwater.registry.errors import InvalidSchema
from headwater.registry.limits import Limits


class SchemaType(StrEnum):
    """By Confluent's names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Policy(StrEnum):
    """How strict JSON Schema's rules are about properties that are added to or removed from open content models."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"


class Reference(NamedTuple):
    """A schema uses another: by `name` in its text, and registered as a version of `subject`."""

    name: str
    subject: str
    version: int


# The texts of all schemas that a schema refers to, directly or not, by the names of the references; those that others
# need come first.
Resolved = Mapping[str, str]
NO_REFERENCES: Final[Resolved] = MappingProxyType({})


class ParsedSchema(Protocol):
    type: ClassVar[SchemaType]

    @property
    def canonical(self) -> str:
        """The text that is stored: schemas with the same one are the same schema."""
        ...

    @property
    def name(self) -> str | None:
        """Of the type, in Protobuf of the first message: some naming strategies make subjects of it."""
        ...

    def normalized(self) -> Self:
        """The same schema in normal form: without differences that have no meaning."""
        ...

    def equivalent(self, other: "ParsedSchema") -> bool:
        """Whether both are the same schema once all references are resolved."""
        ...

    def check_fields(self) -> None:
        """Refuse names of fields that Confluent's clients reserve (`validateFields`)."""
        ...

    def in_form(self, form: str) -> str:
        """Avro: `resolved`, without references. Protobuf: `serialized`, as a descriptor in base64."""
        ...

    def incompatibilities(self, previous: "ParsedSchema", policy: Policy) -> Sequence[str]:
        """Why this schema cannot read what `previous` wrote. Each message has two places, for the name of the reader
        and the name of the writer."""
        ...


class Document(NamedTuple):
    """A schema as it was sent."""

    type: SchemaType
    text: str
    resolved: Resolved = NO_REFERENCES


def read_json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidSchema(f"this is not JSON: {error}") from None


def check_size(document: Document, limits: Limits) -> None:
    size = len(document.text.encode("utf-8", "surrogatepass"))
    if size > limits.bytes_max:
        raise InvalidSchema(f"the schema has {size} bytes, at most {limits.bytes_max} (headwater.schemas.bytes.max)")
    for name, text in document.resolved.items():
        if len(text) > limits.bytes_max:
            raise InvalidSchema(f"reference '{name}' is longer than {limits.bytes_max} (headwater.schemas.bytes.max)")
