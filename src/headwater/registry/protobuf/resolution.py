"""Which message or enum a name means, by the scopes of Protobuf: innermost first, then outwards, then the package."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headwater.registry.errors import InvalidSchema
from headwater.registry.protobuf.tree import EnumType, File, Message

# Types that come with Protobuf, by file. An enum has a capital E in front.
_WELL_KNOWN: Final = {
    "google/protobuf/any.proto": "Any",
    "google/protobuf/api.proto": "Api Method Mixin",
    "google/protobuf/descriptor.proto": "FileDescriptorSet FileDescriptorProto DescriptorProto FieldDescriptorProto "
    "OneofDescriptorProto EnumDescriptorProto EnumValueDescriptorProto ServiceDescriptorProto MethodDescriptorProto "
    "FileOptions MessageOptions FieldOptions OneofOptions EnumOptions EnumValueOptions ServiceOptions MethodOptions "
    "ExtensionRangeOptions UninterpretedOption FeatureSet SourceCodeInfo GeneratedCodeInfo",
    "google/protobuf/duration.proto": "Duration",
    "google/protobuf/empty.proto": "Empty",
    "google/protobuf/field_mask.proto": "FieldMask",
    "google/protobuf/source_context.proto": "SourceContext",
    "google/protobuf/struct.proto": "Struct Value ListValue E:NullValue",
    "google/protobuf/timestamp.proto": "Timestamp",
    "google/protobuf/type.proto": "Type Field Enum EnumValue Option E:Syntax",
    "google/protobuf/wrappers.proto": "DoubleValue FloatValue Int64Value UInt64Value Int32Value UInt32Value BoolValue "
    "StringValue BytesValue",
    "google/type/calendar_period.proto": "E:CalendarPeriod",
    "google/type/color.proto": "Color",
    "google/type/date.proto": "Date",
    "google/type/datetime.proto": "DateTime TimeZone",
    "google/type/dayofweek.proto": "E:DayOfWeek",
    "google/type/decimal.proto": "Decimal",
    "google/type/expr.proto": "Expr",
    "google/type/fraction.proto": "Fraction",
    "google/type/interval.proto": "Interval",
    "google/type/latlng.proto": "LatLng",
    "google/type/money.proto": "Money",
    "google/type/month.proto": "E:Month",
    "google/type/phone_number.proto": "PhoneNumber",
    "google/type/postal_address.proto": "PostalAddress",
    "google/type/quaternion.proto": "Quaternion",
    "google/type/timeofday.proto": "TimeOfDay",
    "confluent/meta.proto": "Meta",
    "confluent/type/decimal.proto": "Decimal",
    "confluent/type/variant.proto": "Variant",
}


class Found(NamedTuple):
    """A type, and where it is from."""

    # Without a leading dot.
    name: str
    type: Message | EnumType
    package: str
    # The name of the import; empty for the file itself.
    file: str

    @property
    def local_name(self) -> str:
        return self.name.removeprefix(f"{self.package}.") if self.package else self.name

    @property
    def is_well_known(self) -> bool:
        return self.file in _WELL_KNOWN


class Scope:
    def __init__(self, file: File, imported: Mapping[str, File]) -> None:
        self.package = file.package
        # The messages that a name stands in, outermost first.
        self.path: list[str] = []
        self.types: dict[str, Found] = {}
        for name, package, known in _well_known(file, imported):
            self.types[f"{package}.{known.name}"] = Found(f"{package}.{known.name}", known, package, name)
        for name, other in imported.items():
            self._collect(other, name)
        self._collect(file, "")

    def _collect(self, file: File, origin: str) -> None:
        prefix = f"{file.package}." if file.package else ""
        left: list[tuple[str, Message]] = [(prefix, message) for message in file.messages]
        enums: list[tuple[str, EnumType]] = [(prefix, enum) for enum in file.enums]
        for space, message in left:
            name = space + message.name
            self.types[name] = Found(name, message, file.package, origin)
            left += [(f"{name}.", nested) for nested in message.messages]
            enums += [(f"{name}.", nested) for nested in message.enums]
            groups = [*message.groups, *(group for oneof in message.oneofs for group in oneof.groups)]
            for group in groups:
                body = Message(group.name, fields=group.fields)
                self.types[f"{name}.{group.name}"] = Found(f"{name}.{group.name}", body, file.package, origin)
        for space, enum in enums:
            self.types[space + enum.name] = Found(space + enum.name, enum, file.package, origin)

    def find(self, name: str) -> Found | None:
        if name.startswith("."):
            return self.types.get(name[1:])
        prefix = [*self.package.split("."), *self.path] if self.package else list(self.path)
        while prefix:
            found = self.types.get(f"{'.'.join(prefix)}.{name}")
            if found is not None:
                return found
            prefix.pop()
        return self.types.get(name)

    def existing(self, name: str) -> str:
        found = self.find(name)
        if found is None:
            raise InvalidSchema(f"no type found for name: {name[:200]}")
        return found.name


def _well_known(file: File, imported: Mapping[str, File]) -> Iterator[tuple[str, str, Message | EnumType]]:
    for each in (file, *imported.values()):
        for name in (*each.imports, *each.public_imports):
            package = name.rpartition("/")[0].replace("/", ".")
            if name not in imported:
                for kind in _WELL_KNOWN.get(name, "").split():
                    is_enum = kind.startswith("E:")
                    yield name, package, EnumType(kind[2:]) if is_enum else Message(kind)


def is_well_known_file(name: str) -> bool:
    return name in _WELL_KNOWN
