"""Queues for clients that receive in one request and settle in another, without a connection or membership in between:
the part of the façade that HTTP, gRPC and the command line stand on.

A receive acquires records for a share group under a name of its own, its *hold*, and gives a receipt for each record
(`receipts.py`). A hold ends with its lock, or when all of its records are settled, and never with a connection. Members
of the group may read the same partitions meanwhile. The client's guard is asked here: which topics a request is about,
only its receipts tell.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.queue_partitions import QueuePartitions
from headwater.broker.shares.receipts import Delivery, ReceiptKey, hold_of, new_nonce
from headwater.broker.shares.received import BatchReader, contents_of, record_bytes
from headwater.broker.shares.share_fetch import SharedPartition, ShareFetch, ShareFetchLimits, ShareRead
from headwater.config.group import EARLIEST, LATEST
from headwater.config.live import LiveConfig
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.coordination.shares.commands import Settled, Verdict
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, MemberId, TopicPartition
from headwater.protocol.batches.records import Record
from headwater.security.acl import Operation, group

logger = logging.getLogger(__name__)

RECORDS_MAX: Final = 1000
RECEIPTS_MAX: Final = 10_000
# As headwater.share.retry.backoff.max.ms.
DELAY_MS_MAX: Final = 86_400_000

_RESET = "share.auto.offset.reset"
_TYPES = {
    each.value: each
    for each in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)
}


class Receive(NamedTuple):
    group_id: GroupId
    topics: Sequence[str]
    records_max: int = 1
    # Of keys, values and headers together; one record is given whatever its size.
    bytes_max: int = 1 << 20
    # How long to wait for the first record.
    wait_ms: int = 0
    # How long the records are held; None as share.record.lock.duration.ms says.
    lock_duration_ms: int | None = None
    # Where the group begins in a partition that is new to it, `earliest` or `latest`, unless the group has a setting of
    # its own (share.auto.offset.reset); None as the setting's default says.
    reset: str | None = None


class ReceivedRecord(NamedTuple):
    where: TopicPartition
    record: Record
    delivery_count: int
    receipt: str


class Settlement(NamedTuple):
    """What becomes of the record of a receipt: ACCEPT, REJECT, RELEASE or RENEW. The last two may take a time: how long
    the record waits for its next delivery, and how long it is held from now on."""

    receipt: str
    # An AcknowledgeType, as the client gives it.
    type: int
    duration_ms: int | None = None


class SettlementPart(NamedTuple):
    """Receipts of one request that are settled in one step, with their positions in the request, by offset."""

    share_id: SharePartitionId
    hold: MemberId
    verdict: Verdict
    positions: dict[int, list[int]]


class Queue:
    def __init__(
        self,
        shares: ShareCoordinator,
        groups: GroupCoordinator,
        partitions: QueuePartitions,
        catalog: CatalogMachine,
        config: LiveConfig,
    ) -> None:
        self._shares = shares
        self._groups = groups
        self._partitions = partitions
        self._catalog = catalog
        self._config = config
        self._key = ReceiptKey()
        self._reader = BatchReader(config)
        self._turns = count()

    # -- receive

    async def receive(self, guard: Guard, request: Receive) -> list[ReceivedRecord]:
        """Records that are now held for this client; none if there are none within the time. If the caller is
        cancelled, others may have them at once."""
        wanted = await self._wanted(guard, request)
        nonce = new_nonce()
        hold = hold_of(nonce)
        config = self._config.current
        fetch = ShareFetch(
            self._shares,
            hold,
            wanted,
            ShareFetchLimits(
                bytes_min=1,
                bytes_max=min(request.bytes_max, config.fetch_max_bytes),
                records_max=request.records_max,
                is_strict=True,
                wait_ms=request.wait_ms,
                committed_only=self._shares.is_committed_only(request.group_id),
                lock_duration_ms=request.lock_duration_ms,
            ),
        )
        try:
            return await self._read(await fetch.wait(), nonce, request)
        except asyncio.CancelledError:
            fetch.abandon()
            for each in wanted:
                self._shares.take_back(each.id, hold)
            raise

    async def _wanted(self, guard: Guard, request: Receive) -> list[SharedPartition]:
        """The partitions of the topics, beginning with another one each time, so that none of them starves."""
        group_id = request.group_id
        guard.check(Operation.READ, group(group_id))
        wanted = self._partitions.of(guard, Operation.READ, group_id, request.topics)
        self._check(request)
        if not self._groups.is_share_group(group_id):
            await self._groups.prepare()
            refusal = await self._groups.open_share_group(group_id).wait()
            if refusal is not None:
                raise refusal
        for share_id, partition in wanted:
            if self._shares.find(share_id) is None:
                own = self._catalog.group_overrides.get(group_id, {}).get(_RESET)
                reset = own or request.reset or self._shares.reset_of(group_id)
                await self._shares.begin_at(share_id, partition, reset)
        first = next(self._turns) % len(wanted)
        return wanted[first:] + wanted[:first]

    def _check(self, request: Receive) -> None:
        if not 1 <= request.records_max <= RECORDS_MAX:
            raise _invalid(f"one receive gives 1 to {RECORDS_MAX} records, not {request.records_max}")
        if request.bytes_max < 1:
            raise _invalid(f"a receive of {request.bytes_max} bytes gives nothing")
        if request.reset not in (None, EARLIEST, LATEST):
            raise _invalid(f"a group begins at {EARLIEST} or {LATEST}, not at '{request.reset:.40}'")
        if request.lock_duration_ms is not None:
            self._check_lock(request.lock_duration_ms)

    def _check_lock(self, duration_ms: int) -> None:
        config = self._config.current
        least, most = config.group_share_min_record_lock_duration_ms, config.group_share_max_record_lock_duration_ms
        if not least <= duration_ms <= most:
            raise _invalid(
                f"a record is held for {least} to {most} ms (group.share.min.record.lock.duration.ms and "
                f"group.share.max.record.lock.duration.ms), not for {duration_ms}"
            )

    async def _read(self, reads: Sequence[ShareRead], nonce: bytes, request: Receive) -> list[ReceivedRecord]:
        hold = hold_of(nonce)
        received: list[ReceivedRecord] = []
        failure: HeadwaterError | None = None
        bytes_left = request.bytes_max
        for read in reads:
            failure = failure or read.error
            if read.records is None:
                continue
            share_id, where = read.wanted.id, read.wanted.partition.id
            if received and bytes_left <= 0:
                self._shares.take_back(share_id, hold)
                continue
            decode = partial(contents_of, ranges=read.acquired, bytes_max=bytes_left)
            try:
                found = await self._reader.read(read.records, decode)
            except HeadwaterError as refusal:
                failure = failure or refusal
                self._shares.take_back(share_id, hold)
                continue
            for record, delivery_count in found.records:
                delivery = Delivery(share_id.topic_id, share_id.partition, record.offset, delivery_count, nonce)
                receipt = self._key.receipt(request.group_id, delivery)
                received.append(ReceivedRecord(where, record, delivery_count, receipt))
                bytes_left -= record_bytes(record)
            if found.gaps:
                self._shares.settle(share_id, hold, found.gaps, Verdict(AcknowledgeType.GAP))
            if found.fault is not None and not found.records:
                reason = f"{where} cannot be read at offset {found.cut_at}: {found.fault}"
                logger.error("%s", reason)
                failure = failure or Refusal(ErrorCode.CORRUPT_MESSAGE, reason)
                # The delivery counts: what cannot be read leaves the queue at some time.
                self._shares.release_all([share_id], hold)
            elif found.cut_at is not None:
                self._shares.take_back(share_id, hold, found.cut_at)
        if failure is not None and not received:
            raise failure
        return received

    # -- settle

    async def settle(
        self, guard: Guard, group_id: GroupId, settlements: Sequence[Settlement]
    ) -> list[HeadwaterError | None]:
        """Each receipt counts for itself: the result has None where its outcome is on disk, and a refusal elsewhere."""
        parts, outcomes = self.parts(guard, group_id, settlements)
        # All are submitted before the first is awaited, so that they share a write.
        told = [(part, self._submit(part)) for part in parts]
        return await add_outcomes(outcomes, told)

    def parts(
        self, guard: Guard, group_id: GroupId, settlements: Sequence[Settlement]
    ) -> tuple[list[SettlementPart], list[HeadwaterError | None]]:
        """What is settled in one step each, and the refusals of receipts that are in none of the parts."""
        guard.check(Operation.READ, group(group_id))
        if len(settlements) > RECEIPTS_MAX:
            raise _invalid(f"one request settles {RECEIPTS_MAX} receipts, not {len(settlements)}")
        outcomes: list[HeadwaterError | None] = [None] * len(settlements)
        parts: dict[tuple[SharePartitionId, MemberId, Verdict], SettlementPart] = {}
        for position, settlement in enumerate(settlements):
            try:
                verdict = self._verdict(group_id, settlement)
                delivery = self._delivery(guard, group_id, settlement.receipt)
            except HeadwaterError as refusal:
                outcomes[position] = refusal
                continue
            key = SharePartitionId(group_id, delivery.topic_id, delivery.partition), delivery.hold, verdict
            part = parts.setdefault(key, SettlementPart(*key, {}))
            part.positions.setdefault(delivery.offset, []).append(position)
        return list(parts.values()), outcomes

    def _submit(self, part: SettlementPart) -> Pending[Outcome[Settled]]:
        return self._shares.settle(part.share_id, part.hold, part.positions.keys(), part.verdict)

    def _verdict(self, group_id: GroupId, settlement: Settlement) -> Verdict:
        kind, duration_ms = _TYPES.get(settlement.type), settlement.duration_ms
        match kind:
            case AcknowledgeType.RELEASE:
                if duration_ms is not None and not 0 <= duration_ms <= DELAY_MS_MAX:
                    raise _invalid(f"a released record waits for 0 to {DELAY_MS_MAX} ms, not for {duration_ms}")
            case AcknowledgeType.RENEW:
                if not self._shares.allows_renewal(group_id):
                    raise _invalid(f"group '{group_id}' allows no renewals (share.renew.acknowledge.enable)")
                if duration_ms is not None:
                    self._check_lock(duration_ms)
            case AcknowledgeType.ACCEPT | AcknowledgeType.REJECT:
                if duration_ms is not None:
                    raise _invalid(f"only a release and a renewal take a time, {duration_ms} ms was given")
            case _:
                raise _invalid(f"a receipt is accepted, released, rejected or renewed (1 to 4), not {settlement.type}")
        return Verdict(kind, duration_ms)

    def _delivery(self, guard: Guard, group_id: GroupId, receipt: str) -> Delivery:
        delivery = self._key.delivery(group_id, receipt)
        found = self._partitions.topics.find_by_id(delivery.topic_id)
        if found is None:
            raise _ended(delivery.offset)
        if not guard.reads(found.name):
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to read topic '{found.name}'")
        return delivery


async def add_outcomes(
    outcomes: list[HeadwaterError | None], told: Sequence[tuple[SettlementPart, Pending[Outcome[Settled]]]]
) -> list[HeadwaterError | None]:
    """The outcome of each receipt of a request, once those of all parts are there."""
    for part, pending in told:
        outcome = await pending.wait()
        for offset, positions in part.positions.items():
            refusal = outcome if isinstance(outcome, HeadwaterError) else None
            if isinstance(outcome, Settled) and offset in outcome.refused:
                refusal = _ended(offset)
            for position in positions:
                outcomes[position] = refusal
    return outcomes


def _ended(offset: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_RECORD_STATE,
        f"the receipt for offset {offset} holds its record no longer: it was settled already, or its lock ran out "
        "(share.record.lock.duration.ms), and another client may have it",
    )


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
