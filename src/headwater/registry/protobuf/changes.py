"""Changes from one Protobuf schema to another: which of them a reader survives, and what is said of them."""

from enum import Enum, auto
from typing import Final, NamedTuple


class Change(Enum):
    """By Confluent's names."""

    PACKAGE_CHANGED = auto()
    MESSAGE_ADDED = auto()
    MESSAGE_REMOVED = auto()
    MESSAGE_MOVED = auto()
    ENUM_ADDED = auto()
    ENUM_REMOVED = auto()
    ENUM_CONST_ADDED = auto()
    ENUM_CONST_CHANGED = auto()
    ENUM_CONST_REMOVED = auto()
    FIELD_ADDED = auto()
    FIELD_REMOVED = auto()
    FIELD_NAME_CHANGED = auto()
    FIELD_KIND_CHANGED = auto()
    FIELD_SCALAR_KIND_CHANGED = auto()
    FIELD_NAMED_TYPE_CHANGED = auto()
    FIELD_NUMERIC_LABEL_CHANGED = auto()
    FIELD_STRING_OR_BYTES_LABEL_CHANGED = auto()
    REQUIRED_FIELD_ADDED = auto()
    REQUIRED_FIELD_REMOVED = auto()
    ONEOF_ADDED = auto()
    ONEOF_REMOVED = auto()
    ONEOF_FIELD_ADDED = auto()
    ONEOF_FIELD_REMOVED = auto()
    ONEOF_FIELD_MOVED_TO_TOP_LEVEL = auto()
    MULTIPLE_FIELDS_MOVED_TO_ONEOF = auto()
    FIELD_MOVED_TO_EXISTING_ONEOF = auto()


COMPATIBLE: Final = frozenset(
    {
        Change.MESSAGE_ADDED,
        Change.MESSAGE_MOVED,
        Change.ENUM_ADDED,
        Change.ENUM_REMOVED,
        Change.ENUM_CONST_ADDED,
        Change.ENUM_CONST_CHANGED,
        Change.ENUM_CONST_REMOVED,
        Change.FIELD_ADDED,
        Change.FIELD_REMOVED,
        Change.FIELD_NAME_CHANGED,
        Change.FIELD_STRING_OR_BYTES_LABEL_CHANGED,
        Change.ONEOF_ADDED,
        Change.ONEOF_REMOVED,
        Change.ONEOF_FIELD_ADDED,
        Change.ONEOF_FIELD_MOVED_TO_TOP_LEVEL,
    }
)

_TEXTS: Final = {
    Change.PACKAGE_CHANGED: "The package at '{path}' in the %s schema does not match the package in the %s schema",
    Change.MESSAGE_REMOVED: "The %s schema is missing a MESSAGE type at path '{path}' in the %s schema",
    Change.FIELD_KIND_CHANGED: "The type of a field at path '{path}' in the %s schema does not match the %s schema",
    Change.FIELD_SCALAR_KIND_CHANGED: (
        "The kind of a SCALAR field at path '{path}' in the %s schema does not match its kind in the %s schema"
    ),
    Change.FIELD_NAMED_TYPE_CHANGED: (
        "The type of a MESSAGE field at path '{path}' in the %s schema does not match its type in the %s schema"
    ),
    Change.FIELD_NUMERIC_LABEL_CHANGED: (
        "The label for a NUMERIC field at path '{path}' in the %s schema does not match its label in the %s schema"
    ),
    Change.REQUIRED_FIELD_ADDED: ("A required field  at path '{path}' in the %s schema is missing in the %s schema"),
    Change.REQUIRED_FIELD_REMOVED: ("The %s schema is missing a required field at path: '{path}' in the %s schema"),
    Change.ONEOF_FIELD_REMOVED: "The %s schema is missing a oneof field at path '{path}' in the %s schema",
    Change.MULTIPLE_FIELDS_MOVED_TO_ONEOF: (
        "Multiple fields in the oneof at path '{path}' in the %s schema are outside a oneof in the %s schema"
    ),
    Change.FIELD_MOVED_TO_EXISTING_ONEOF: (
        "A field in the oneof at path '{path}' in the %s schema is outside an existing oneof in the %s schema"
    ),
}


class Difference(NamedTuple):
    change: Change
    path: str

    def message(self) -> str:
        described = _TEXTS.get(self.change, "").format(path=self.path)
        return f'{{errorType:"{self.change.name}", description:"{described}"}}'
