"""Whether one Avro schema reads what another wrote: the rules of Avro's SchemaCompatibility, in Confluent's words."""

from enum import Enum
from typing import Final, NamedTuple

from headwater.registry.avro.types import AvroType, Field, Kind
from headwater.registry.limits import ComparisonBudget, Limits


class Problem(Enum):
    """By Avro's names; how Confluent's registry describes each. %s stands for the reader, then for the writer."""

    NAME_MISMATCH = "The name of the schema has changed (path '{path}')"
    FIXED_SIZE_MISMATCH = (
        "The size of FIXED type field at path '{path}' in the %s schema does not match with the %s schema"
    )
    MISSING_ENUM_SYMBOLS = "The %s schema is missing enum symbols '{detail}' at path '{path}' in the %s schema"
    READER_FIELD_MISSING_DEFAULT_VALUE = (
        "The field '{detail}' at path '{path}' in the %s schema has no default value and is missing in the %s schema"
    )
    TYPE_MISMATCH = "The type (path '{path}') of a field in the %s schema does not match with the %s schema"
    MISSING_UNION_BRANCH = "The %s schema is missing a type inside a union field at path '{path}' in the %s schema"


class Difference(NamedTuple):
    problem: Problem
    path: str
    detail: str

    def message(self) -> str:
        described = self.problem.value.format(path=self.path, detail=self.detail)
        return f"{{errorType:'{self.problem.name}', description:'{described}', additionalInfo:'{self.detail}'}}"


# Types that a reader also takes for its own.
_PROMOTED: Final = {
    Kind.LONG: frozenset({Kind.INT}),
    Kind.FLOAT: frozenset({Kind.INT, Kind.LONG}),
    Kind.DOUBLE: frozenset({Kind.INT, Kind.LONG, Kind.FLOAT}),
    Kind.BYTES: frozenset({Kind.STRING}),
    Kind.STRING: frozenset({Kind.BYTES}),
}


def compare(reader: AvroType, writer: AvroType, limits: Limits) -> list[str]:
    comparison = _Comparison(limits)
    return [difference.message() for difference in comparison.of(reader, writer)]


class _Comparison:
    def __init__(self, limits: Limits) -> None:
        self._budget = ComparisonBudget(limits)
        # By the identities of reader and writer; None while the pair is being compared, for types may be recursive.
        self._known: dict[tuple[int, int], list[Difference] | None] = {}
        self._path: list[str] = []

    def of(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        if reader.kind.is_primitive and writer.kind.is_primitive:
            self._budget.take()
            return self._unlike(reader, writer)
        pair = id(reader), id(writer)
        if pair in self._known:
            # Recursion is compatible if the rest is. Paths are those of the first time, as in Avro's library.
            return self._known[pair] or []
        self._known[pair] = None
        found = self._known[pair] = self._compare(reader, writer)
        return found

    def _at(self, path: str, reader: AvroType, writer: AvroType) -> list[Difference]:
        self._path.append(path)
        found = self.of(reader, writer)
        self._path.pop()
        return found

    def _difference(self, problem: Problem, detail: str, *path: str) -> Difference:
        return Difference(problem, "/" + "/".join([*self._path, *path]), detail)

    def _compare(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        self._budget.take()
        if reader.kind is not writer.kind:
            if writer.kind is Kind.UNION:
                found: list[Difference] = []
                for number, branch in enumerate(writer.branches):
                    found += self._at(str(number), reader, branch)
                return found
            if reader.kind is Kind.UNION:
                return self._branch_for(reader, writer)
            return self._unlike(reader, writer)
        match reader.kind:
            case Kind.ARRAY:
                return self._at("items", reader.element, writer.element)
            case Kind.MAP:
                return self._at("values", reader.element, writer.element)
            case Kind.FIXED:
                found = self._names(reader, writer)
                if reader.size != writer.size:
                    detail = f"expected: {writer.size}, found: {reader.size}"
                    found.append(self._difference(Problem.FIXED_SIZE_MISMATCH, detail, "size"))
                return found
            case Kind.ENUM:
                return self._names(reader, writer) + self._symbols(reader, writer)
            case Kind.RECORD:
                return self._names(reader, writer) + self._fields(reader, writer)
            case Kind.UNION:
                return self._union(reader, writer)
            case _:
                return []

    def _unlike(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        if reader.kind is writer.kind or writer.kind in _PROMOTED.get(reader.kind, ()):
            return []
        detail = f"reader type: {reader.kind.name} not compatible with writer type: {writer.kind.name}"
        return [self._difference(Problem.TYPE_MISMATCH, detail)]

    def _branch_for(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        for branch in reader.branches:
            if not self.of(branch, writer):
                return []
        detail = f"reader union lacking writer type: {writer.kind.name}"
        return [self._difference(Problem.MISSING_UNION_BRANCH, detail)]

    def _union(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        found: list[Difference] = []
        for number, branch in enumerate(writer.branches):
            self._path.append(str(number))
            if self.of(reader, branch):
                detail = f"reader union lacking writer type: {branch.kind.name}"
                found.append(self._difference(Problem.MISSING_UNION_BRANCH, detail))
            self._path.pop()
        return found

    def _names(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        if reader.simple_name == writer.simple_name or writer.name in reader.aliases:
            return []
        return [self._difference(Problem.NAME_MISMATCH, f"expected: {writer.name}", "name")]

    def _symbols(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        missing = sorted(writer.symbol_set - reader.symbol_set)
        if not missing or reader.default is not None:
            return []
        return [self._difference(Problem.MISSING_ENUM_SYMBOLS, f"[{', '.join(missing)}]", "symbols")]

    def _fields(self, reader: AvroType, writer: AvroType) -> list[Difference]:
        written = {field.name: field for field in writer.fields}
        found: list[Difference] = []
        for number, field in enumerate(reader.fields):
            source = _source(field, written)
            self._path += ["fields", str(number)]
            if source is not None:
                found += self._at("type", field.type, source.type)
            elif not field.has_default and field.type.kind is Kind.ENUM and field.type.default is not None:
                # The default of an enum is none of the field, and Avro's library says so in this odd way.
                found += self._at("type", field.type, writer)
            elif not field.has_default:
                found.append(self._difference(Problem.READER_FIELD_MISSING_DEFAULT_VALUE, field.name))
            del self._path[-2:]
        return found


def _source(field: Field, written: dict[str, Field]) -> Field | None:
    """The writer's field that the reader's is read from."""
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None
