"""The schema registry: every operation of Confluent's API, over the machine of `_schemas`.

A refusal is raised as a `RegistryRefusal`. A registration is checked outside of the machine, and checked again if the
subject has changed meanwhile; registrations under one subject wait for each other.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.partition import Partition
from headwater.broker.schemas.checks import EarlierVersion, Inputs, SchemaChecks
from headwater.broker.schemas.format import SchemaFormat
from headwater.broker.shards.sharded_topic import ShardedTopic, ShardedTopicDefinition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.topics import Topics
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.coordination.catalog.topic_names import SCHEMAS_TOPIC
from headwater.coordination.decisions import Decision
from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.commands import (
    CheckedRegistration,
    ConfigUpdate,
    Outdated,
    Registration,
    SchemaLimits,
)
from headwater.coordination.schemas.events import Event
from headwater.coordination.schemas.machine import SchemaMachine
from headwater.coordination.schemas.metadata import completed
from headwater.coordination.schemas.references import resolve
from headwater.coordination.schemas.refusals import RegistryRefusal
from headwater.coordination.schemas.state import SchemaState, same_content
from headwater.coordination.schemas.terms import LATEST, Content, Mode, StoredSchema, SubjectConfig
from headwater.errors import ConfigError, HeadwaterError
from headwater.registry import formats
from headwater.registry.limits import Limits
from headwater.registry.parsed import ParsedSchema

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A subject that changes more often than this while a schema is checked has settings that change all the time.
ATTEMPTS_MAX = 10
_KEY = ""


class SchemaRegistry(ShardedTopic[SchemaMachine]):
    def __init__(
        self, topics: Topics, partitions: HostedPartitions, config: EffectiveConfig, journal: Journal, clock: Clock
    ) -> None:
        self._config = config
        self._partitions_hosted = partitions
        self._topics_known = topics
        self.checks = SchemaChecks(lambda: config.live.current)
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        topics.reserve(SCHEMAS_TOPIC)
        definition = ShardedTopicDefinition(
            SCHEMAS_TOPIC,
            lambda: 1,
            dict[str, str],
            _new_log,
            lambda: SchemaMachine(self._limits),
        )
        super().__init__(definition, topics, partitions, journal, clock)

    def _limits(self) -> SchemaLimits:
        current = self._config.live.current
        return SchemaLimits(current.headwater_schemas_max, current.headwater_schemas_total_bytes_max)

    async def start(self) -> None:
        """Refuse a topic that cannot hold schemas, such as one that was copied without its settings; create it if there
        is none."""
        partitions = self._partitions_hosted.by_topic.get(SCHEMAS_TOPIC)
        if partitions is not None:
            if len(partitions) != 1:
                raise ConfigError(
                    f"headwater.schemas.enable: topic {SCHEMAS_TOPIC} has {len(partitions)} partitions instead of one"
                )
            if partitions[0].config.is_deleted_by_retention or not partitions[0].config.is_compacted:
                raise ConfigError(
                    f"headwater.schemas.enable: topic {SCHEMAS_TOPIC} must have cleanup.policy=compact, or schemas "
                    "would be deleted by their age"
                )
        await self.prepare()

    async def stop(self) -> None:
        await super().stop()
        self.checks.stop()

    # -- the machine

    async def ask(self, query: Callable[[SchemaMachine], T]) -> T:
        """Ask the machine, once everything that the answer may rest on is on disk."""
        return await self._command(lambda machine: Decision([], query(machine)))

    async def _command(self, decide: Callable[[SchemaMachine], Decision[T]]) -> T:
        if self._loading is not None and not self._loading.done():
            await asyncio.wait([self._loading])
        outcome = await self.submit(_KEY, lambda machine, _ticket, _now: decide(machine)).wait()
        if isinstance(outcome, RegistryRefusal):
            raise outcome
        if isinstance(outcome, HeadwaterError):
            raise RegistryRefusal(refusals.STORE_ERROR, f"the registry cannot be reached: {outcome}")
        return outcome  # pyright: ignore[reportReturnType] (no decision here waits)

    @property
    def state(self) -> SchemaState | None:
        """What the machine knows at this moment, for checks of records; None while it is loaded."""
        machine = self.shards[0].machine if self.shards else None
        return None if machine is None else machine.state

    # -- schemas

    async def register(
        self, registration: Registration, *, normalize: bool = False, is_forced: bool = False
    ) -> StoredSchema:
        subjects.check(registration.subject)
        async with self._lock(registration.subject):
            for _ in range(ATTEMPTS_MAX):
                inputs = await self.ask(lambda machine: _inputs_for_registration(machine, registration))
                if isinstance(inputs, StoredSchema):
                    return inputs
                is_normal = normalize or bool(inputs.config.get("normalize"))

                def check(
                    limits: Limits, inputs: Inputs = inputs, *, is_normal: bool = is_normal
                ) -> CheckedRegistration:
                    return self.checks.check(inputs, limits, normalize=is_normal, is_forced=is_forced)

                checked = await self.checks.run(inputs.size, check)
                outcome = await self._command(lambda machine, checked=checked: machine.decide_register(checked))
                if not isinstance(outcome, Outdated):
                    return outcome
        raise RegistryRefusal(refusals.STORE_ERROR, "the settings change faster than the schema can be checked")

    async def look_up(
        self, registration: Registration, *, normalize: bool = False, with_deleted: bool = False
    ) -> StoredSchema:
        """The version of a subject that has just this schema."""

        def inputs_of(machine: SchemaMachine) -> list[Inputs]:
            names = machine.names_in_contexts(registration.subject)
            found = [name for name in names if machine.state.has_subject(name, with_deleted=with_deleted)]
            if not found:
                raise refusals.subject_not_found(registration.subject)
            return [
                _inputs(machine, registration, name, with_deleted=with_deleted, inherits=inherits)
                for name in found
                for inherits in (False, True)
            ]

        for inputs in await self.ask(inputs_of):
            is_normal = normalize or bool(inputs.config.get("normalize"))

            def find(limits: Limits, inputs: Inputs = inputs, *, is_normal: bool = is_normal) -> int | None:
                content = self.checks.canonical(inputs, limits, normalize=is_normal, is_new=False)
                for each in reversed(inputs.earlier):
                    if same_content(each.content, content):
                        return each.number
                return self.checks.equivalent(inputs, content, limits)

            number = await self.checks.run(inputs.size, find)
            if number is not None:
                subject = inputs.registration.subject

                def stored(machine: SchemaMachine, subject: str = subject, number: int = number) -> StoredSchema:
                    return machine.existing(subject, number, with_deleted=with_deleted)

                return await self.ask(stored)
        raise refusals.schema_not_found()

    async def compatibility(
        self, registration: Registration, version: int | None, *, normalize: bool = False
    ) -> list[str]:
        """Why the schema may not follow one version, or all that the subject's level asks for; empty if it may."""

        def inputs_of(machine: SchemaMachine) -> Inputs:
            subject = subjects.normalized(registration.subject)
            inputs = _inputs(machine, registration, subject)
            if version is None:
                return inputs
            wanted = machine.state.find(subject, version)
            if wanted is None and version != LATEST:
                raise refusals.version_not_found(version)
            number = None if wanted is None else wanted.version
            return inputs._replace(earlier=[each for each in inputs.earlier if each.number == number])

        inputs = await self.ask(inputs_of)
        is_normal = normalize or bool(inputs.config.get("normalize"))

        def compare(limits: Limits) -> list[str]:
            content = self.checks.canonical(inputs, limits, normalize=is_normal, is_new=True)
            return self.checks.compare(inputs, content, limits)

        return await self.checks.run(inputs.size, compare)

    async def parsed(self, subject: str, content: Content) -> ParsedSchema:
        resolved = await self.ask(lambda machine: resolve(machine.state, subject, content))
        size = len(content.text) + sum(map(len, resolved.values()))
        return await self.checks.run(size, lambda limits: self.checks.parsed(content, resolved, limits))

    async def formatted(self, stored: StoredSchema, wanted: str) -> str:
        """The text of a schema in a form that some clients ask for: Protobuf `serialized`, Avro `resolved`."""
        is_known = (stored.content.type.value, wanted) in (("PROTOBUF", "serialized"), ("AVRO", "resolved"))
        if not is_known:
            return stored.content.text
        parsed = await self.parsed(stored.subject, stored.content)
        return formats.in_form(parsed, wanted)

    async def delete_version(self, subject: str, version: int, *, is_permanent: bool) -> int:
        async with self._lock(subject):
            return await self._command(
                lambda machine: machine.decide_delete_version(subject, version, is_permanent=is_permanent)
            )

    async def delete_subject(self, subject: str, *, is_permanent: bool) -> list[int]:
        async with self._lock(subject):
            return await self._command(
                lambda machine: machine.decide_delete_subject(subject, is_permanent=is_permanent)
            )

    async def delete_context(self, context: str) -> None:
        await self._command(lambda machine: machine.decide_remove_context(context))

    # -- settings

    async def configure(self, subject: str | None, update: ConfigUpdate) -> SubjectConfig:
        return await self._command(lambda machine: machine.decide_configure(subject, update))

    async def remove_config(self, subject: str | None) -> SubjectConfig:
        return await self._command(lambda machine: machine.decide_remove_config(subject))

    async def set_mode(self, subject: str | None, mode: Mode, *, is_forced: bool) -> Mode:
        return await self._command(lambda machine: machine.decide_set_mode(subject, mode, is_forced=is_forced))

    async def remove_mode(self, subject: str | None, *, is_recursive: bool) -> Mode | None:
        return await self._command(lambda machine: machine.decide_remove_mode(subject, is_recursive=is_recursive))

    # -- order

    @asynccontextmanager
    async def _lock(self, subject: str) -> AsyncGenerator[None]:
        """One after the other, for otherwise all but one would be checked for nothing."""
        lock, waiting = self._locks.get(subject, (asyncio.Lock(), 0))
        self._locks[subject] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks.pop(subject)
            if waiting > 1:
                self._locks[subject] = lock, waiting - 1


def _new_log(partition: Partition) -> StateLog[Event]:
    return StateLog(partition, SchemaFormat())


def _inputs_for_registration(machine: SchemaMachine, registration: Registration) -> Inputs | StoredSchema:
    mode = machine.check_may_register(registration)
    state, subject = machine.state, registration.subject
    if registration.version == 0 and registration.id < 0 and not state.config_in_scope(subject).get("normalize"):
        # Clients send a schema whenever they start: the usual one is known in its canonical form.
        latest = state.find(subject, LATEST)
        if latest is not None and latest.content == registration.content:
            return latest
    if mode is Mode.IMPORT:
        return _inputs(machine, registration, subject)
    versions: Mapping[int, StoredSchema] = state.versions.get(subject, {})
    following = (next(reversed(versions)) if versions else 0) + 1
    return _inputs(machine, registration, subject, inherits=True, version=following)


def _inputs(
    machine: SchemaMachine,
    registration: Registration,
    subject: str,
    *,
    with_deleted: bool = False,
    inherits: bool = False,
    version: int | None = None,
) -> Inputs:
    state = machine.state
    config = state.config_in_scope(subject)
    stored = state.versions_of(subject, with_deleted=with_deleted)
    content = registration.content
    if inherits:
        previous = stored[-1].content if stored else None
        if not content.text.strip() and previous is not None:
            content = replace(previous, metadata=content.metadata, rule_set=content.rule_set)
        content = completed(content, config, previous, version, is_asked=registration.version != 0)
    if not content.text.strip():
        raise refusals.invalid_schema("Empty schema")
    return Inputs(
        Registration(subject, content, registration.version, registration.id),
        content,
        resolve(state, subject, content),
        config,
        state.mode_in_scope(subject),
        _earlier(state, stored),
        state.revision_of(subject),
    )


def _earlier(state: SchemaState, stored: Sequence[StoredSchema]) -> list[EarlierVersion]:
    return [
        EarlierVersion(
            each.version, each.content, resolve(state, each.subject, each.content) if each.content.references else {}
        )
        for each in stored
    ]
