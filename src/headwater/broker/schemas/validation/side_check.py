"""The keys or the values of one topic: which schemas they may have, and whether they follow them.

Used by the event loop and by threads at once. What is known of schemas is replaced as a whole when it is out of date,
so that a thread cannot add to it what it learnt before.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from headwater.broker.schemas.validation.ready_schemas import ReadySchema, ReadySchemas, SchemaKey
from headwater.coordination.schemas import subjects
from headwater.coordination.schemas.references import resolve
from headwater.coordination.schemas.refusals import RegistryRefusal
from headwater.coordination.schemas.state import SchemaState
from headwater.coordination.schemas.terms import LATEST, Content
from headwater.printable import printable
from headwater.protocol.batches.records import Headers, Record
from headwater.registry import formats
from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.limits import Limits
from headwater.registry.parsed import Document
from headwater.registry.payloads import framing
from headwater.registry.payloads.framing import Framed
from headwater.registry.protobuf.schema import ProtobufSchema

T = TypeVar("T")

Side = Literal["key", "value"]
# An id, or a GUID.
Reference = int | str

_PREFIX_BYTES: Final = 5
# Schemas of which it is remembered whether records may have them.
_VERDICTS_MAX: Final = 10_000
# Of the text that says what is wrong with a record.
_FAULT_LENGTH_MAX: Final = 300
# Checked bytes between two pauses.
_BYTES_PER_PAUSE: Final = 4 << 10


class Ask(Protocol):
    def __call__(self, query: Callable[[SchemaState], T], /) -> T: ...


class Workplace(NamedTuple):
    """Where a check runs: on the event loop or in a thread."""

    # Asks the registry.
    ask: Ask
    limits: Limits
    # Raises `LargeBatch` where a schema of this length would take too long.
    check_length: Callable[[int], None]
    ready: ReadySchemas
    payload_bytes_max: int


class Verdict(NamedTuple):
    """Whether records may have a schema."""

    # Why not.
    fault: str | None = None
    # The schema where more has to be checked, which depends on the payload.
    key: SchemaKey | None = None


_ACCEPTED: Final = Verdict()


class _Known:
    def __init__(self, state: SchemaState, revision: object) -> None:
        self.state = state
        self.revision = revision
        self.verdicts: dict[Reference, Verdict] = {}
        # What may stand in front of a payload of which nothing else is checked.
        self.accepted: set[bytes] = set()
        # Names of Protobuf messages, with what is wrong with their subjects.
        self.messages: dict[tuple[int, str], str | None] = {}
        # The schema of payloads without a schema's number, with its version.
        self.latest: tuple[SchemaKey, int] | None = None


class _Found(NamedTuple):
    key: SchemaKey
    content: Content
    resolved: dict[str, str]

    @property
    def length(self) -> int:
        return len(self.content.text) + sum(map(len, self.resolved.values()))


class SideCheck:
    def __init__(
        self, side: Side, topic: str, *, validation: str, strategy: str, pinned: str, state: SchemaState
    ) -> None:
        self._side: Side = side
        self._topic = topic
        self.decodes = validation == "full"
        self._strategy = strategy
        self._pinned = bool(pinned)
        # None where it depends on the schema.
        self._subject = subjects.normalized(pinned) if pinned else f"{topic}-{side}" if strategy == "topic" else None
        self._context = subjects.context_of(pinned)
        self._header = f"__{side}_schema_id"
        self._known = _Known(state, self._revision(state))

    def _revision(self, state: SchemaState) -> object:
        return state.revision if self._subject is None else state.revision_of(self._subject)

    def forget_outdated(self, state: SchemaState) -> None:
        revision = self._revision(state)
        if state is not self._known.state or revision != self._known.revision:
            self._known = _Known(state, revision)

    # -- records

    def check(self, decoded: Sequence[Record], found: dict[int, str], faults_max: int, workplace: Workplace) -> None:
        """Add the records that are at fault to `found`, by their index."""
        known = self._known
        accepted = known.accepted
        is_value = self._side == "value"
        checked_bytes = 0
        for index, record in enumerate(decoded):
            data = record.value if is_value else record.key
            if data is None or (data[:_PREFIX_BYTES] in accepted and not record.headers):
                continue
            checked_bytes += len(data) if self.decodes else _PREFIX_BYTES
            if checked_bytes > _BYTES_PER_PAUSE:
                workplace.limits.pause()
                checked_bytes = 0
            fault = self._fault(known, data, record.headers, workplace)
            if fault is not None and index not in found:
                found[index] = _shortened(f"has a {self._side} {fault}")
                if len(found) >= faults_max:
                    return

    def _fault(self, known: _Known, data: bytes, headers: Headers, workplace: Workplace) -> str | None:
        if self.decodes and len(data) > workplace.payload_bytes_max:
            return (
                f"of {len(data)} bytes, which are more than can be checked "
                f"({workplace.payload_bytes_max}, headwater.schemas.payload.bytes.max)"
            )
        in_header = next((value for name, value in headers if name == self._header), None) if headers else None
        try:
            framed = framing.read(data if in_header is None else in_header)
        except InvalidPayload:
            framed = None
        if framed is None:
            fault = f"without the number of a schema in front (headwater.{self._side}.schema.validation)"
        else:
            fault = self._framed_fault(known, framed, None if in_header is None else data, workplace)
        if fault is None or in_header is not None or not self._pinned or not self.decodes:
            return fault
        return self._unframed_fault(known, data, fault, workplace)

    def _framed_fault(self, known: _Known, framed: Framed, data: bytes | None, workplace: Workplace) -> str | None:
        """`data` where the schema's number is in a header."""
        reference = framed.guid if framed.schema_id is None else framed.schema_id
        assert reference is not None, "a frame names a schema"
        verdict = known.verdicts.get(reference)
        if verdict is None:
            verdict = self._learn(known, reference, workplace)
        if verdict.key is None:
            return verdict.fault
        payload = framed.payload
        try:
            ready = self._ready(verdict.key, workplace)
            if isinstance(ready.parsed, ProtobufSchema):
                indexes, payload = framing.read_indexes(payload)
                name = ready.parsed.message_name(indexes)
                if name is None:
                    return f"with schema {verdict.key.id}, which has no message {list(indexes)}"
                fault = self._message_fault(known, verdict.key, name, workplace)
                if fault is not None or not self.decodes:
                    return fault
                codec = ready.message(indexes)
            else:
                codec = ready.codec
            if self.decodes:
                codec.validate(payload if data is None else data)
        except InvalidPayload as error:
            return f"that does not follow schema {verdict.key.id} {error}"
        except InvalidSchema as error:
            return f"with schema {verdict.key.id}, which cannot be used: {error}"
        return None

    def _unframed_fault(self, known: _Known, data: bytes, fault: str, workplace: Workplace) -> str | None:
        """A payload without a schema's number, or whose first bytes look like one."""
        if known.latest is None:
            subject, context = self._subject, self._context
            assert subject is not None, "a pinned subject is the same for all records"

            def latest(state: SchemaState) -> tuple[_Found, int] | None:
                stored = state.find(subject, LATEST)
                return None if stored is None else (_found(state, context, stored.id, stored.content), stored.version)

            found = workplace.ask(latest)
            if found is None:
                return f"{fault}, and subject '{subject}' has no schema"
            self._prepare(found[0], workplace)
            known.latest = found[0].key, found[1]
        key, version = known.latest
        try:
            self._ready(key, workplace).codec.validate(data)
        except InvalidPayload as error:
            return f"that does not follow version {version} of subject '{self._subject}' {error}"
        except InvalidSchema as error:
            return f"that version {version} of subject '{self._subject}' cannot be used for: {error}"
        return None

    # -- schemas

    def _learn(self, known: _Known, reference: Reference, workplace: Workplace) -> Verdict:
        """Find out whether records may have a schema."""
        if len(known.verdicts) >= _VERDICTS_MAX:
            known.verdicts.clear()
            known.accepted.clear()
        verdict = known.verdicts[reference] = self._verdict(reference, workplace)
        if verdict is _ACCEPTED and isinstance(reference, int):
            known.accepted.add(framing.prefix(reference))
        return verdict

    def _verdict(self, reference: Reference, workplace: Workplace) -> Verdict:
        context, subject = self._context, self._subject

        def look_up(state: SchemaState) -> tuple[_Found, str | None] | None:
            ids = state.ids_in(context)
            schema_id = reference if isinstance(reference, int) else ids.id_of_guid(reference)
            content = None if schema_id is None else ids.content_by_id.get(schema_id)
            if schema_id is None or content is None:
                return None
            fault = None if subject is None else self._subject_fault(state, subject, schema_id)
            return _found(state, context, schema_id, content), fault

        found = workplace.ask(look_up)
        if found is None:
            return Verdict(f"with schema {reference}, which the registry does not know")
        schema, fault = found
        if fault is not None:
            return Verdict(fault)
        if subject is not None and not self.decodes:
            return _ACCEPTED
        try:
            ready = self._prepare(schema, workplace)
        except InvalidSchema as error:
            return Verdict(f"with schema {schema.key.id}, which cannot be used: {error}")
        if subject is None and not isinstance(ready.parsed, ProtobufSchema):
            fault = self._name_fault(schema.key, ready.parsed.name, workplace)
            if fault is not None or not self.decodes:
                return Verdict(fault) if fault is not None else _ACCEPTED
        return Verdict(None, schema.key)

    def _message_fault(self, known: _Known, key: SchemaKey, name: str, workplace: Workplace) -> str | None:
        if self._subject is not None:
            return None
        place = key.id, name
        if place not in known.messages:
            if len(known.messages) >= _VERDICTS_MAX:
                known.messages.clear()
            known.messages[place] = self._name_fault(key, name, workplace)
        return known.messages[place]

    def _name_fault(self, key: SchemaKey, name: str | None, workplace: Workplace) -> str | None:
        """What is wrong with the subject that the strategy makes of the name of a type."""
        if not name:
            return f"with schema {key.id}, which has no name to make a subject of {self._setting()}"
        subject = name if self._strategy == "record" else f"{self._topic}-{name}"
        return workplace.ask(lambda state: self._subject_fault(state, subject, key.id))

    def _subject_fault(self, state: SchemaState, subject: str, schema_id: int) -> str | None:
        """Why the id stands for no schema of the subject."""
        versions = [each for each in state.versions_of(subject, with_deleted=True) if each.id == schema_id]
        if any(not each.is_deleted for each in versions):
            return None
        # The name of a type is not told: the client may have no right to describe the schema.
        shown = "the subject that its name makes" if self._subject is None else f"subject '{subject}'"
        if versions:
            return f"with schema {schema_id}, which was deleted from {shown}"
        return f"with schema {schema_id}, which is not in {shown} {self._setting()}"

    def _setting(self) -> str:
        if self._pinned:
            return f"(headwater.{self._side}.schema.subject)"
        return f"(headwater.{self._side}.subject.name.strategy={self._strategy})"

    def _ready(self, key: SchemaKey, workplace: Workplace) -> ReadySchema:
        ready = workplace.ready.find(key)
        if ready is not None:
            return ready

        def look_up(state: SchemaState) -> _Found | None:
            content = state.ids_in(key.context).content_by_id.get(key.id)
            return None if content is None else _found(state, key.context, key.id, content)

        found = workplace.ask(look_up)
        if found is None or found.key != key:
            raise InvalidSchema("it was deleted at this moment")
        return self._prepare(found, workplace)

    def _prepare(self, found: _Found, workplace: Workplace) -> ReadySchema:
        ready = workplace.ready.find(found.key)
        if ready is None:
            workplace.check_length(found.length)
            document = Document(found.content.type, found.content.text, found.resolved)
            ready = ReadySchema(formats.parse(document, workplace.limits), found.length)
            if self.decodes:
                _ = ready.codec
            workplace.ready.add(found.key, ready)
        return ready


def _found(state: SchemaState, context: str, schema_id: int, content: Content) -> _Found:
    # References are looked for in the same context.
    parent = subjects.Subject(context, "").qualified
    try:
        resolved = resolve(state, parent, content) if content.references else {}
    except RegistryRefusal:
        # Of a registry that was moved here without some of its schemas: this one cannot be parsed.
        resolved = {}
    return _Found(SchemaKey(context, schema_id, content.type, content.guid), content, resolved)


def _shortened(fault: str) -> str:
    fault = printable(fault)
    return fault if len(fault) <= _FAULT_LENGTH_MAX else f"{fault[:_FAULT_LENGTH_MAX]}..."
