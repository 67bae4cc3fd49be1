"""Records that are produced to topics with schemas, checked against them: what `Broker.produce` asks.

A small batch is checked at once. A large one, or one whose schema takes long to parse, is checked in a thread, which
asks the event loop for what it needs of the registry.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from headwater.broker.partition import Partition
from headwater.broker.schemas.checks import limits_of
from headwater.broker.schemas.registry import SchemaRegistry
from headwater.broker.schemas.validation.ready_schemas import ReadySchemas
from headwater.broker.schemas.validation.side_check import Ask, Workplace
from headwater.broker.schemas.validation.topic_check import PlacedCheck, TopicCheck
from headwater.broker.writes import intake
from headwater.config.live import LiveConfig
from headwater.coordination.schemas.state import SchemaState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicName

T = TypeVar("T")

# Payloads of so many bytes, and schemas of so many characters, are worked off in about a millisecond.
INLINE_BYTES_MAX = 4 << 10
# Long enough for another thread to take the interpreter.
_PAUSE_S = 50e-6
# Topics whose checks are kept.
_TOPICS_MAX = 10_000


class RecordSchemas:
    def __init__(self, registry: Callable[[], SchemaRegistry], config: LiveConfig) -> None:
        self._find_registry = registry
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._checks: dict[TopicName, TopicCheck] = {}
        self._ready = ReadySchemas()

    def admission(self, partition: Partition) -> intake.Admit:
        """The admission of batches to a partition whose topic has schemas."""
        check = self._check_of(partition)
        bytes_max = self._config.current.headwater_batch_inline_bytes_max
        if check.decodes:
            bytes_max = min(bytes_max, INLINE_BYTES_MAX)
        schemas = PlacedCheck(check, self._workplace(self._ask, _check_length), bytes_max)
        return partial(intake.admit, schemas=schemas)

    def check_in_thread(self, partition: Partition) -> intake.RecordCheck:
        return PlacedCheck(self._check_of(partition), self._workplace(self._ask_from_thread, None))

    def _workplace(self, ask: Ask, check_length: Callable[[int], None] | None) -> Workplace:
        config = self._config.current
        limits = limits_of(config)
        if check_length is None:
            limits = limits._replace(pause=_pause)
        return Workplace(
            ask, limits, check_length or _any_length, self._ready, config.headwater_schemas_payload_bytes_max
        )

    def _check_of(self, partition: Partition) -> TopicCheck:
        config, topic = partition.config, partition.id.topic
        state = self._state()
        check = self._checks.get(topic)
        if check is None or check.config is not config:
            if len(self._checks) >= _TOPICS_MAX:
                self._checks.clear()
            check = self._checks[topic] = TopicCheck(topic, config, state)
        check.forget_outdated(state)
        return check

    def _state(self) -> SchemaState:
        if not self._config.current.headwater_schemas_enable:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                "the topic asks for records that follow a schema (headwater.key.schema.validation, "
                "headwater.value.schema.validation), but this broker is no schema registry (headwater.schemas.enable)",
            )
        state = self._find_registry().state
        if state is None:
            # Every producer tries again on this code.
            raise Refusal(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                "records cannot be checked against their schemas: the registry's topic _schemas is being loaded, or is "
                "out of service",
            )
        return state

    def _ask(self, query: Callable[[SchemaState], T], /) -> T:
        return query(self._state())

    def _ask_from_thread(self, query: Callable[[SchemaState], T], /) -> T:
        answer: Future[T] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._ask(query))
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(ask)
        return answer.result()


def _check_length(length: int) -> None:
    if length > INLINE_BYTES_MAX:
        raise intake.LargeBatch


def _any_length(_: int) -> None:
    """A thread parses any schema."""


def _pause() -> None:
    time.sleep(_PAUSE_S)
