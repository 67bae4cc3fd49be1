"""The audit log: events as JSON records of the internal topic `__headwater_audit`.

It never makes a request wait: events are written at the end of the loop turn. Their rate is bounded, and the log says
how many were suppressed.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from uuid import uuid4

from headwater.broker.audit.event import AuditEvent, EventType, Result
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.topics import Topics
from headwater.broker.writes.journal import Append
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.coordination.catalog.topic_names import AUDIT_TOPIC
from headwater.errors import HeadwaterError
from headwater.ids import NodeId
from headwater.metrics import Metrics
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.security.principals import Principal
from headwater.token_bucket import TokenBucket

logger = logging.getLogger(__name__)

# Events that wait for the topic to be created; more are suppressed.
PENDING_MAX = 10_000
ACKS_WRITTEN = 1
# How long the count of suppressed events waits for the next event.
SUPPRESSED_TOLD_AFTER_S = 1.0


class AuditLog:
    def __init__(
        self, topics: Topics, partitions: HostedPartitions, node_id: NodeId, clock: Clock, config: BrokerConfig
    ) -> None:
        self.records_granted = config.headwater_audit_granted
        self._topics = topics
        self._partitions = partitions
        self._node_id = node_id
        self._clock = clock
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._limit = TokenBucket(config.headwater_audit_events_per_second_max, clock.monotonic_ms())
        self._pending: list[tuple[AuditEvent, int]] = []
        self._suppressed = self.suppressed_total = 0
        self._is_write_scheduled = False
        self._creation: asyncio.Task[None] | None = None
        self._telling: asyncio.TimerHandle | None = None

    def declare(self, metrics: Metrics) -> None:
        metrics.gauge(
            "headwater_audit_suppressed_events",
            "Audit events that were suppressed because there were too many (headwater.audit.events.per.second.max).",
            lambda: self.suppressed_total,
        )

    def use_config(self, config: BrokerConfig) -> None:
        self.records_granted = config.headwater_audit_granted
        self._limit.per_second = config.headwater_audit_events_per_second_max

    def record(
        self,
        event_type: EventType,
        principal: Principal | str,
        host: str,
        resource: str,
        result: Result,
        details: Mapping[str, str] = {},
    ) -> None:
        if len(self._pending) >= PENDING_MAX or not self._limit.take(self._clock.monotonic_ms()):
            self._suppressed += 1
            self.suppressed_total += 1
            if self._telling is None:
                # There may be no further event that would take the count along.
                self._telling = self._loop.call_later(SUPPRESSED_TOLD_AFTER_S, self._write_soon)
            return
        event = AuditEvent(event_type, str(principal), host, resource, result, details)
        self._pending.append((event, self._clock.now_ms()))
        self._write_soon()

    def record_local(
        self,
        event_type: EventType,
        resource: str,
        details: Mapping[str, str] = {},
        *,
        error: HeadwaterError | None = None,
    ) -> None:
        """Record what no client asked for, but the owner of this process: by a start, a signal, a command."""
        self.changed(event_type, _local_account(), "", resource, error, details)

    def changed(
        self,
        event_type: EventType,
        principal: Principal,
        host: str,
        resource: str,
        error: HeadwaterError | None,
        details: Mapping[str, str],
    ) -> None:
        """Record a change, or why it was not made."""
        if error is None:
            self.record(event_type, principal, host, resource, Result.SUCCESS, details)
        else:
            failed = {**details, "error": error.code.name, "reason": str(error)}
            self.record(event_type, principal, host, resource, Result.FAILURE, failed)

    # -- writing

    def _write_soon(self) -> None:
        if AUDIT_TOPIC not in self._partitions.by_topic:
            if self._creation is None:
                self._creation = self._loop.create_task(self._create(), name=f"create {AUDIT_TOPIC}")
        elif not self._is_write_scheduled:
            self._is_write_scheduled = True
            self._loop.call_soon(self._write)

    async def _create(self) -> None:
        overrides = {"retention.ms": str(self._config.headwater_audit_retention_ms), "cleanup.policy": "delete"}
        try:
            await self._topics.create_internal(AUDIT_TOPIC, 1, overrides)
            self._write()
        except HeadwaterError as error:
            # The next event tries again.
            logger.error("audit events wait, because %s cannot be created: %s", AUDIT_TOPIC, error)
        finally:
            self._creation = None

    def _write(self) -> None:
        self._is_write_scheduled = False
        self._end_telling()
        pending, self._pending = self._pending, []
        if self._suppressed:
            details = {"events": str(self._suppressed)}
            told = AuditEvent(EventType.SUPPRESSED, "", "", "", Result.SUCCESS, details)
            pending.append((told, self._clock.now_ms()))
            self._suppressed = 0
        if not pending:
            return
        records = [
            Record(number, timestamp_ms, None, event.encoded(uuid4().hex, timestamp_ms, self._node_id))
            for number, (event, timestamp_ms) in enumerate(pending)
        ]
        (partition,) = self._partitions.by_topic[AUDIT_TOPIC]
        batch = batches.build(records)
        try:
            partition.stage(
                batches.read_header(batch),
                memoryview(batch),
                Append(_written),
                acks=ACKS_WRITTEN,
                now_ms=self._clock.now_ms(),
            )
        except HeadwaterError as error:
            logger.error("%d audit events are lost: %s", len(pending), error)

    def _end_telling(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    async def stop(self) -> None:
        """Write what is pending."""
        self._end_telling()
        if self._creation is not None:
            await asyncio.gather(self._creation, return_exceptions=True)
        if AUDIT_TOPIC in self._partitions.by_topic:
            self._write()


def _written(append: Append) -> None:
    if append.error is not None:
        logger.error("audit events are lost: %s", append.error)


def _local_account() -> Principal:
    # Late import: seldom needed.
    import pwd  # noqa: PLC0415

    number = os.getuid()
    try:
        return Principal("OS", pwd.getpwuid(number).pw_name)
    except KeyError:
        return Principal("OS", str(number))
