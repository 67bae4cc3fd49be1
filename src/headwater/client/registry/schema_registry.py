"""The operations of a schema registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, cast

from headwater.client.errors import ClientError
from headwater.client.registry.settings import RegistrySettings, read_registry
from headwater.client.registry.transport import RegistryRefused, Transport
from headwater.registry.parsed import Reference, SchemaType

# By Confluent's codes.
SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_CONFIG_NOT_SET = 40408
SUBJECT_MODE_NOT_SET = 40409
INCOMPATIBLE = 409
# Schemas that a schema refers to, directly or not.
_REFERENCES_MAX = 1_000
# Of lists; registries give no more at a time.
_PAGE_LENGTH = 1_000

Version = int | Literal["latest"]


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema without its place."""

    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A version of a subject. Some registries do not tell the subject and the version of an id."""

    schema: Schema
    id: int
    subject: str | None = None
    version: int | None = None
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    is_deleted: bool = False


class SchemaRegistry:
    def __init__(self, settings: RegistrySettings | Mapping[str, str] | str) -> None:
        """`settings` are those of a client (`schema.registry.url` and its neighbours), or the address alone."""
        if isinstance(settings, str):
            settings = {"schema.registry.url": settings}
        read = settings if isinstance(settings, RegistrySettings) else read_registry(settings)
        self._transport = Transport(read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # -- schemas

    def register(
        self, subject: str, schema: Schema, *, normalize: bool = False, is_forced: bool = False
    ) -> RegisteredSchema:
        """Register a schema as the next version of a subject; a schema that is a version already stays what it is."""
        query = {"normalize": normalize or None, "force": is_forced or None}
        answer = self._ask("POST", ("subjects", subject, "versions"), query, _body(schema))
        version = answer.get("version")
        if version is None:
            # Older registries tell the id alone.
            version = self.look_up(subject, schema, normalize=normalize).version
        return RegisteredSchema(schema, _number(answer, "id"), subject, version)

    def look_up(
        self, subject: str, schema: Schema, *, normalize: bool = False, with_deleted: bool = False
    ) -> RegisteredSchema:
        """The version of a subject that has just this schema."""
        query = {"normalize": normalize or None, "deleted": with_deleted or None}
        return _registered(self._ask("POST", ("subjects", subject), query, _body(schema)))

    def version(self, subject: str, version: Version = "latest", *, with_deleted: bool = False) -> RegisteredSchema:
        query = {"deleted": with_deleted or None}
        return _registered(self._ask("GET", ("subjects", subject, "versions", str(version)), query))

    def schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """The schema with an id, in the context of `subject` if that is given."""
        answer = self._ask("GET", ("schemas", "ids", str(schema_id)), {"subject": subject})
        return _registered({**answer, "id": schema_id})

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The schema with a globally unique id. Its number is that of the first context that has it."""
        answer = self._ask("GET", ("schemas", "guids", guid))
        ids = self._transport.ask("GET", ("schemas", "guids", guid, "ids"))
        return _registered({**answer, "id": ids[0]["id"]})

    def schemas(
        self, prefix: str | None = None, *, latest_only: bool = False, with_deleted: bool = False
    ) -> list[RegisteredSchema]:
        """Versions of all subjects whose names begin with `prefix`."""
        query = {"subjectPrefix": prefix, "latestOnly": latest_only or None, "deleted": with_deleted or None}
        found: list[dict[str, Any]] = []
        while True:
            page = _objects(
                self._transport.ask("GET", ("schemas",), {**query, "offset": len(found), "limit": _PAGE_LENGTH})
            )
            # Some registries know no pages, and answer with everything each time.
            if found and page[:1] == found[:1]:
                break
            found += page
            if len(page) < _PAGE_LENGTH:
                break
        return [_registered(each) for each in found]

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[int]:
        query = {"deleted": with_deleted or None}
        return self._transport.ask("GET", ("subjects", subject, "versions"), query)

    def resolve(self, schema: Schema) -> dict[str, str]:
        """The texts of all schemas that this one refers to, by the names of the references; those that others need come
        first."""
        resolved: dict[str, str] = {}
        left: list[tuple[Reference, Schema | None]] = [(each, None) for each in reversed(schema.references)]
        opened: set[str] = set()
        while left:
            reference, found = left.pop()
            if found is not None:
                resolved[reference.name] = found.text
            elif reference.name not in opened:
                opened.add(reference.name)
                if len(opened) > _REFERENCES_MAX:
                    raise ClientError(f"the schema refers to more than {_REFERENCES_MAX} others")
                found = self.version(reference.subject, _version(reference), with_deleted=True).schema
                left.append((reference, found))
                left += [(each, None) for each in reversed(found.references)]
        return resolved

    # -- compatibility and deletion

    def incompatibilities(self, subject: str, schema: Schema, version: Version | None = None) -> list[str]:
        """Why a schema may not become the next version: empty if it may. Compared are all versions that the level of
        the subject asks for, or the one that is named."""
        path = ("compatibility", "subjects", subject, "versions")
        try:
            answer = self._ask(
                "POST", path if version is None else (*path, str(version)), {"verbose": True}, _body(schema)
            )
        except RegistryRefused as refusal:
            if refusal.number == SUBJECT_NOT_FOUND and version is None:
                # Some registries say this of a subject whose first version any schema may be.
                return []
            raise
        if answer.get("is_compatible"):
            return []
        return [str(each) for each in cast("list[object]", answer.get("messages") or ["it is not compatible"])]

    def delete_version(self, subject: str, version: Version, *, is_permanent: bool = False) -> int:
        query = {"permanent": is_permanent or None}
        return self._transport.ask("DELETE", ("subjects", subject, "versions", str(version)), query)

    def delete_subject(self, subject: str, *, is_permanent: bool = False) -> list[int]:
        return self._transport.ask("DELETE", ("subjects", subject), {"permanent": is_permanent or None})

    # -- settings

    def config(self, subject: str | None = None, *, with_inherited: bool = True) -> dict[str, Any]:
        """The settings of a subject, or of the registry."""
        query = {"defaultToGlobal": with_inherited or None} if subject is not None else {}
        return self._ask("GET", _about("config", subject), query)

    def configure(self, subject: str | None, settings: Mapping[str, object]) -> dict[str, Any]:
        return self._ask("PUT", _about("config", subject), body=dict(settings))

    def remove_config(self, subject: str | None) -> None:
        self._transport.ask("DELETE", _about("config", subject))

    def mode(self, subject: str | None = None, *, with_inherited: bool = True) -> str:
        query = {"defaultToGlobal": with_inherited or None} if subject is not None else {}
        return str(self._ask("GET", _about("mode", subject), query).get("mode"))

    def set_mode(self, subject: str | None, mode: str, *, is_forced: bool = False) -> str:
        answer = self._ask("PUT", _about("mode", subject), {"force": is_forced or None}, {"mode": mode})
        return str(answer.get("mode", mode))

    def remove_mode(self, subject: str) -> None:
        self._transport.ask("DELETE", _about("mode", subject))

    def _ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: object = None
    ) -> dict[str, Any]:
        answer = self._transport.ask(method, path, query, body)
        if not isinstance(answer, dict):
            raise ClientError(f"the registry's answer to {method} /{'/'.join(path)} is no object")
        return cast("dict[str, Any]", answer)


def _about(kind: str, subject: str | None) -> tuple[str, ...]:
    return (kind,) if subject is None else (kind, subject)


def _body(schema: Schema) -> dict[str, object]:
    body: dict[str, object] = {"schema": schema.text}
    if schema.type is not SchemaType.AVRO:
        body["schemaType"] = schema.type.value
    if schema.references:
        body["references"] = [each._asdict() for each in schema.references]
    return body


def _registered(answer: Mapping[str, Any]) -> RegisteredSchema:
    try:
        references = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in cast("Sequence[Mapping[str, Any]]", answer.get("references") or ())
        )
        schema = Schema(str(answer["schema"]), SchemaType(answer.get("schemaType") or "AVRO"), references)
        return RegisteredSchema(
            schema,
            _number(answer, "id"),
            answer.get("subject"),
            answer.get("version"),
            answer.get("metadata"),
            answer.get("ruleSet"),
            bool(answer.get("deleted")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ClientError(f"the registry's answer is not understood: {error!r}") from None


def _number(answer: Mapping[str, Any], name: str) -> int:
    number = answer.get(name)
    if not isinstance(number, int):
        raise ClientError(f"the registry's answer has no {name}")
    return number


def _objects(answer: Any) -> list[dict[str, Any]]:
    if not isinstance(answer, list):
        raise ClientError("the registry's answer is no list")
    return cast("list[dict[str, Any]]", answer)


def _version(reference: Reference) -> Version:
    return "latest" if reference.version == -1 else reference.version
