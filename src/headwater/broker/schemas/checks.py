"""The work on a registration that does not need the machine: the schema is parsed and compared with earlier ones.

Small schemas are worked on at once, others in a thread, which pauses now and then so that clients are served.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar, cast

from headwater.broker.schemas.parsed_cache import ParsedCache
from headwater.config.broker import BrokerConfig
from headwater.coordination.schemas.commands import CheckedRegistration, Registration
from headwater.coordination.schemas.metadata import without_version
from headwater.coordination.schemas.refusals import invalid_schema
from headwater.coordination.schemas.terms import Content, Json, Mode, SubjectConfig
from headwater.registry import compatibility, formats
from headwater.registry.compatibility import Level, Version
from headwater.registry.errors import InvalidSchema
from headwater.registry.limits import Limits
from headwater.registry.parsed import Document, ParsedSchema, Policy

T = TypeVar("T")

# Texts of so many bytes together are parsed and compared in about a millisecond.
INLINE_BYTES_MAX = 4 << 10
THREADS = 2
# Long enough for another thread to take the interpreter.
PAUSE_S = 50e-6


class EarlierVersion(NamedTuple):
    number: int
    content: Content
    resolved: Mapping[str, str]


class Inputs(NamedTuple):
    """What a check depends on, as it was when the machine was asked."""

    registration: Registration
    # The registration's content with what the settings and the version before add to it.
    content: Content
    resolved: Mapping[str, str]
    config: SubjectConfig
    mode: Mode
    # Oldest first.
    earlier: Sequence[EarlierVersion]
    revision: tuple[int, int]

    @property
    def size(self) -> int:
        texts = [self.content.text, *self.resolved.values()]
        level = Level(self.config.compatibility or Level.BACKWARD)
        compared = self.earlier if level.is_transitive else self.earlier[-1:]
        texts += [text for each in compared for text in (each.content.text, *each.resolved.values())]
        return sum(map(len, texts))


class SchemaChecks:
    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._cache = ParsedCache()
        self._threads: ThreadPoolExecutor | None = None

    def limits(self) -> Limits:
        return limits_of(self._config())

    async def run(self, size: int, work: Callable[[Limits], T]) -> T:
        """Do work on texts of this size, where it keeps nobody waiting."""
        limits = self.limits()
        if size <= INLINE_BYTES_MAX:
            return work(limits)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="headwater-schema")
        limits = limits._replace(pause=_pause)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, limits)

    def parsed(self, content: Content, resolved: Mapping[str, str], limits: Limits) -> ParsedSchema:
        try:
            return self._cache.parsed(content, resolved, limits)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema of type {content.type}, details: {error}") from None

    def canonical(self, inputs: Inputs, limits: Limits, *, normalize: bool, is_new: bool) -> Content:
        """The content as it is stored."""
        content = inputs.content
        try:
            document = Document(content.type, content.text, inputs.resolved)
            if is_new and inputs.config.get("validateNewSchemas"):
                parsed = formats.parse(document, limits, is_new=True)
            else:
                parsed = self._cache.parsed(content, inputs.resolved, limits)
            if inputs.mode is not Mode.IMPORT:
                if inputs.config.get("validateFields"):
                    parsed.check_fields()
                if normalize:
                    parsed = formats.normalized(parsed)
            text = parsed.canonical
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema of type {content.type}, details: {error}") from None
        references = content.references
        if normalize:
            references = tuple(sorted(dict.fromkeys(references), key=lambda each: (each.subject, each.version)))
        return Content(content.type, text, references, content.metadata, content.rule_set)

    def check(self, inputs: Inputs, limits: Limits, *, normalize: bool, is_forced: bool) -> CheckedRegistration:
        content = self.canonical(inputs, limits, normalize=normalize, is_new=True)
        checked = CheckedRegistration(
            inputs.registration, content, inputs.revision, self.equivalent(inputs, content, limits)
        )
        if inputs.mode is Mode.IMPORT or is_forced or checked.equivalent_version is not None:
            return checked
        messages = self.compare(inputs, content, limits)
        return CheckedRegistration(inputs.registration, content, inputs.revision, None, messages)

    def compare(self, inputs: Inputs, content: Content, limits: Limits) -> list[str]:
        """Why the schema may not follow the earlier ones; empty if it may."""
        config = inputs.config
        level = Level(config.compatibility or Level.BACKWARD)
        if level is Level.NONE:
            return []
        earlier = inputs.earlier
        group = config.get("compatibilityGroup")
        if group is not None:
            wanted = _property(content, group)
            earlier = [each for each in earlier if _property(each.content, group) == wanted]
        compared = earlier if level.is_transitive else earlier[-1:]
        if not compared:
            return []
        policy = Policy.LENIENT if config.get("compatibilityPolicy") == Policy.LENIENT else Policy.STRICT
        try:
            new = self._cache.parsed(content, inputs.resolved, limits)
            versions = [
                Version(each.number, self._cache.parsed(each.content, each.resolved, limits)) for each in compared
            ]
            messages = compatibility.check(level, policy, new, versions)
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema of type {content.type}, details: {error}") from None
        if messages:
            validates = "true" if config.get("validateFields") else "false"
            messages.append(f"{{validateFields: '{validates}', compatibility: '{level}'}}")
        return messages

    def equivalent(self, inputs: Inputs, content: Content, limits: Limits) -> int | None:
        """The newest earlier version that is the same schema: with all references resolved in its text, or stored by
        another registry in another form."""
        for position, each in enumerate(reversed(inputs.earlier)):
            stored = each.content
            if stored.type is not content.type or stored.rule_set != content.rule_set:
                continue
            if without_version(stored.metadata) != without_version(content.metadata):
                continue
            is_same_references = stored.references == content.references
            if not is_same_references and (content.references or not stored.references):
                continue
            if is_same_references and stored.text == content.text:
                return each.number
            # Texts without references are the same only if their canonical forms are: one look at the latest version
            # suffices for a registry that came from elsewhere.
            if is_same_references and position > 0:
                continue
            try:
                new = self._cache.parsed(content, inputs.resolved, limits)
                if formats.are_equivalent(new, self._cache.parsed(stored, each.resolved, limits)):
                    return each.number
            except InvalidSchema:
                # What another registry took may be refused here; it is no equal of a schema that is not.
                continue
        return None

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)


def limits_of(config: BrokerConfig) -> Limits:
    return Limits(
        config.headwater_schemas_bytes_max,
        config.headwater_schemas_depth_max,
        config.headwater_schemas_types_max,
        config.headwater_schemas_comparisons_max,
    )


def _pause() -> None:
    time.sleep(PAUSE_S)


def _property(content: Content, name: str) -> str | None:
    properties = cast("Json", (content.metadata or {}).get("properties") or {})
    return properties.get(name)
