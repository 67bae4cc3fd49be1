"""The changes from one Protobuf schema to another, found by Confluent's rules: fields are compared by their numbers."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from headwater.registry.limits import ComparisonBudget, Limits
from headwater.registry.protobuf.changes import COMPATIBLE, Change, Difference
from headwater.registry.protobuf.resolution import Found, Scope
from headwater.registry.protobuf.tree import SCALARS, EnumType, Field, File, MapType, Message, OneOf

# Scalars that are read as each other.
_GENERAL: Final = "general number"
_STRING: Final = "string or bytes"
_SCALAR_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), _GENERAL),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), _STRING),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}


class Side:
    """One of two files that are compared."""

    def __init__(self, file: File, scope: Scope) -> None:
        self.file = file
        self.scope = scope


def compare(original: Side, update: Side, limits: Limits) -> list[str]:
    """Why `update` does not read what follows `original`."""
    return [each.message() for each in differences(original, update, limits) if each.change not in COMPATIBLE]


def differences(original: Side, update: Side, limits: Limits) -> Sequence[Difference]:
    comparison = _Comparison(original, update, ComparisonBudget(limits))
    comparison.files()
    return comparison.found


class _Comparison:
    def __init__(self, original: Side, update: Side, budget: ComparisonBudget) -> None:
        self.found: list[Difference] = []
        self._original = original
        self._update = update
        self._budget = budget
        self._path: list[str] = []
        # Messages that are being compared: they may contain themselves.
        self._under_way: set[int] = set()
        # What was found in messages of other files. Paths in them begin at the message, wherever it is used.
        self._imported_found: dict[tuple[int, int], Sequence[Difference]] = {}

    def files(self) -> None:
        original, update = self._original.file, self._update.file
        if original.package != update.package:
            self._add(Change.PACKAGE_CHANGED)
        self._types(original.messages, update.messages, original.enums, update.enums)

    def _add(self, change: Change, *path: str) -> None:
        self._budget.take()
        self.found.append(Difference(change, "#/" + "/".join([*self._path, *path])))

    @contextmanager
    def _at(self, *path: str) -> Generator[None]:
        self._path += path
        yield
        del self._path[len(self._path) - len(path) :]

    @contextmanager
    def _inside(self, name: str) -> Generator[None]:
        scopes = self._original.scope, self._update.scope
        for scope in scopes:
            scope.path.append(name)
        with self._at(name):
            yield
        for scope in scopes:
            scope.path.pop()

    # -- types

    def _types(
        self,
        original: Sequence[Message],
        update: Sequence[Message],
        original_enums: Sequence[EnumType],
        update_enums: Sequence[EnumType],
    ) -> None:
        before = {message.name: (number, message) for number, message in enumerate(original)}
        after = {message.name: (number, message) for number, message in enumerate(update)}
        for name in dict.fromkeys((*before, *after)):
            if name not in after:
                self._add(Change.MESSAGE_REMOVED, name)
            elif name not in before:
                self._add(Change.MESSAGE_ADDED, name)
            else:
                (was_at, first), (is_at, second) = before[name], after[name]
                with self._inside(name):
                    self._message(first, second)
                    if was_at != is_at:
                        self._add(Change.MESSAGE_MOVED)
        earlier = {enum.name: enum for enum in original_enums}
        later = {enum.name: enum for enum in update_enums}
        for name in dict.fromkeys((*earlier, *later)):
            if name not in later:
                self._add(Change.ENUM_REMOVED, name)
            elif name not in earlier:
                self._add(Change.ENUM_ADDED, name)
            else:
                with self._at(name):
                    self._enum(earlier[name], later[name])

    def _enum(self, original: EnumType, update: EnumType) -> None:
        before = {constant.tag: constant.name for constant in original.constants}
        after = {constant.tag: constant.name for constant in update.constants}
        for tag in dict.fromkeys((*before, *after)):
            self._budget.take()
            if tag not in after:
                self._add(Change.ENUM_CONST_REMOVED, str(tag))
            elif tag not in before:
                self._add(Change.ENUM_CONST_ADDED, str(tag))
            elif before[tag] != after[tag]:
                self._add(Change.ENUM_CONST_CHANGED, str(tag))

    def _message(self, original: Message, update: Message) -> None:
        if id(original) not in self._under_way:
            self._under_way.add(id(original))
            self._fields(original, update)
            self._under_way.discard(id(original))
        self._types(original.messages, update.messages, original.enums, update.enums)

    # -- fields

    def _fields(self, original: Message, update: Message) -> None:
        before, after = _Members(original), _Members(update)
        for oneof in update.oneofs:
            self._new_choice(oneof, before)
        for name in sorted(before.oneofs.keys() | after.oneofs.keys()):
            if name not in after.oneofs:
                self._add(Change.ONEOF_REMOVED, name)
            elif name not in before.oneofs:
                self._add(Change.ONEOF_ADDED, name)
        # A oneof that goes with all of its fields is no loss: they are removed as others are.
        gone = {
            name
            for name, oneof in before.oneofs.items()
            if name not in after.oneofs and not any(field.tag in after.fields for field in oneof.fields)
        }
        for tag in sorted(before.fields.keys() | after.fields.keys()):
            self._budget.take()
            was_in, is_in = before.oneof_of.get(tag), after.oneof_of.get(tag)
            if tag not in after.fields:
                if was_in is None:
                    is_required = before.fields[tag].label == "required"
                    self._add(Change.REQUIRED_FIELD_REMOVED if is_required else Change.FIELD_REMOVED, str(tag))
                elif was_in not in gone:
                    self._add(Change.ONEOF_FIELD_REMOVED, was_in, str(tag))
            elif tag not in before.fields:
                if is_in is not None:
                    self._add(Change.ONEOF_FIELD_ADDED, is_in, str(tag))
                else:
                    is_required = after.fields[tag].label == "required"
                    self._add(Change.REQUIRED_FIELD_ADDED if is_required else Change.FIELD_ADDED, str(tag))
            else:
                if was_in is not None and is_in is None:
                    self._add(Change.ONEOF_FIELD_MOVED_TO_TOP_LEVEL, str(tag))
                with self._at(*([] if is_in is None else [is_in]), str(tag)):
                    self._field(before.fields[tag], after.fields[tag])

    def _new_choice(self, oneof: OneOf, before: "_Members") -> None:
        """Fields that could all be set, and exclude each other now."""
        groups: set[str | int] = set()
        independent = 0
        for field in oneof.fields:
            if field.tag in before.oneof_of:
                groups.add(before.oneof_of[field.tag])
            elif field.tag in before.fields:
                groups.add(field.tag)
                independent += 1
        if len(groups) > 1:
            change = Change.MULTIPLE_FIELDS_MOVED_TO_ONEOF if independent > 1 else Change.FIELD_MOVED_TO_EXISTING_ONEOF
            self._add(change, oneof.name)

    def _field(self, original: Field, update: Field) -> None:
        if original.name != update.name:
            self._add(Change.FIELD_NAME_CHANGED)
        self._field_types(original.type, update.type, original.label, update.label)

    def _field_types(
        self, original: str | MapType, update: str | MapType, original_label: str = "", update_label: str = ""
    ) -> None:
        if isinstance(original, MapType) or isinstance(update, MapType):
            if isinstance(original, MapType) and isinstance(update, MapType):
                self._field_types(original.key, update.key)
                self._field_types(original.value, update.value)
            else:
                self._add(Change.FIELD_KIND_CHANGED)
            return
        before, after = _scalar_kind(original, self._original.scope), _scalar_kind(update, self._update.scope)
        if before is None and after is None:
            self._messages(original, update)
        elif before is None or after is None:
            self._add(Change.FIELD_KIND_CHANGED)
        elif before != after:
            self._add(Change.FIELD_SCALAR_KIND_CHANGED)
        elif original_label and update_label and original_label != update_label:
            is_text = before == _STRING
            self._add(Change.FIELD_STRING_OR_BYTES_LABEL_CHANGED if is_text else Change.FIELD_NUMERIC_LABEL_CHANGED)

    def _messages(self, original: str, update: str) -> None:
        before, after = self._original.scope.find(original), self._update.scope.find(update)
        if before is None or after is None:
            if original != update:
                self._add(Change.FIELD_NAMED_TYPE_CHANGED)
            return
        if before.local_name != after.local_name:
            self._add(Change.FIELD_NAMED_TYPE_CHANGED)
            return
        is_own = not before.file and not after.file
        if is_own or (before.is_well_known and after.is_well_known):
            # Compared in its own place; or part of Protobuf, where nothing changes.
            return
        if isinstance(before.type, Message) and isinstance(after.type, Message):
            pair = id(before.type), id(after.type)
            if pair not in self._imported_found:
                # As long as it is being compared nothing is known: it may contain itself.
                self._imported_found[pair] = ()
                self._imported_found[pair] = self._compare_imported(before, after, before.type, after.type)
            found = self._imported_found[pair]
            self._budget.take(len(found))
            self.found += found
            if any(each.change not in COMPATIBLE for each in found):
                self._add(Change.FIELD_NAMED_TYPE_CHANGED)

    def _compare_imported(
        self, before: Found, after: Found, original: Message, update: Message
    ) -> Sequence[Difference]:
        """Types of other files, or of other versions of them, are compared where a field has them."""
        sides = ((self._original.scope, before), (self._update.scope, after))
        kept = [(scope.package, scope.path) for scope, _ in sides]
        path, outer = self._path, self.found
        self._path, self.found = before.local_name.split("."), []
        for scope, found in sides:
            scope.package, scope.path = found.package, found.local_name.split(".")
        self._message(original, update)
        for (scope, _), (package, names) in zip(sides, kept, strict=True):
            scope.package, scope.path = package, names
        found_here, self._path, self.found = self.found, path, outer
        return found_here


class _Members:
    """The fields of a message by their numbers, inside of a oneof or not."""

    def __init__(self, message: Message) -> None:
        self.fields = {field.tag: field for field in message.fields}
        self.oneofs = {oneof.name: oneof for oneof in message.oneofs}
        self.oneof_of: dict[int, str] = {}
        for oneof in message.oneofs:
            for field in oneof.fields:
                self.fields[field.tag] = field
                self.oneof_of[field.tag] = oneof.name


def _scalar_kind(kind: str, scope: Scope) -> str | None:
    """None for a message. An enum is a number."""
    if kind in SCALARS:
        return _SCALAR_KINDS[kind]
    found = scope.find(kind)
    return _GENERAL if found is not None and isinstance(found.type, EnumType) else None
