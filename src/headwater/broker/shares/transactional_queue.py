"""Settlements inside transactions: a producer's transaction says what becomes of received records, together with the
records that it writes.

The partition of `__share_group_state` becomes part of the transaction, as that of `__consumer_offsets` does when
offsets are committed in one. What was said is pending, on disk, until the transaction ends; its marker there is the
event that carries it out, or gives the records back.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import refused
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.queue import Settlement, SettlementPart, add_outcomes
from headwater.broker.transactions.coordinator import TransactionCoordinator
from headwater.coordination.catalog.topic_names import SHARE_STATE_TOPIC
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.shares.commands import Acknowledged, Settled
from headwater.coordination.shares.machine import ShareMachine
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.coordination.transactions.commands import PROTOCOL_2, ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, ProducerId, TopicPartition, TransactionalId
from headwater.protocol.batches.batch import Marker
from headwater.security.acl import Operation, transactional_id

_TYPES: Final = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})

_Told = Sequence[tuple[SettlementPart, Pending[Outcome[Settled]]]]


class OpenTransaction(NamedTuple):
    transactional_id: TransactionalId
    producer: ProducerIdentity


class TransactionalQueue:
    def __init__(self, shares: ShareCoordinator, transactions: TransactionCoordinator) -> None:
        self._shares = shares
        self._transactions = transactions

    async def settle(
        self, guard: Guard, transaction: OpenTransaction, group_id: GroupId, settlements: Sequence[Settlement]
    ) -> list[HeadwaterError | None]:
        """Each receipt counts for itself: the result has None where its outcome is pending and on disk, and a refusal
        elsewhere. Receipts can be accepted or rejected."""
        guard.check(Operation.WRITE, transactional_id(transaction.transactional_id))
        parts, outcomes = self._shares.queue.parts(guard, group_id, settlements)
        allowed = [part for part in parts if part.verdict.type in _TYPES]
        for part in parts:
            if part.verdict.type not in _TYPES:
                refusal = Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"in a transaction a receipt is accepted or rejected (1 or 3), not {part.verdict.type.value}: "
                    "release or renew it outside of the transaction",
                )
                for position in (each for positions in part.positions.values() for each in positions):
                    outcomes[position] = refusal
        if not allowed:
            return outcomes
        told = await self._join(transaction, allowed).wait()
        if isinstance(told, HeadwaterError):
            raise told
        return await add_outcomes(outcomes, told)

    def _join(self, transaction: OpenTransaction, parts: Sequence[SettlementPart]) -> Pending[Outcome[_Told]]:
        """Submit the parts once the coordinator knows, on disk, in which partitions the transaction settles."""

        def joined(refusal: HeadwaterError | None) -> Outcome[_Told]:
            if refusal is not None:
                return refusal
            # At once, while the transaction is known to be open: after its end they would stay pending forever.
            return [(part, self._submit(part, transaction.producer)) for part in parts]

        logs = {self._shares.log_of(part.share_id.coordinator_key) for part in parts}
        return self._transactions.add_partitions(*transaction, logs, PROTOCOL_2).map(joined)

    def _submit(self, part: SettlementPart, producer: ProducerIdentity) -> Pending[Outcome[Settled]]:
        share_id, hold, verdict, positions = part
        return self._shares.submit(
            share_id.coordinator_key,
            lambda machine, _ticket, _now: machine.decide_settle_in_transaction(
                share_id, hold, positions.keys(), verdict.type, *producer
            ),
        )

    def end(
        self, partition: int, producer_id: ProducerId, epoch: int, marker: Marker, protocol_version: int
    ) -> Pending[Outcome[None]]:
        """End a producer's transaction in one partition of the state: None once what it means is on disk."""
        if not 0 <= partition < len(self._shares.shards):
            where = TopicPartition(SHARE_STATE_TOPIC, partition)
            return refused(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {where}"))

        def decide(
            machine: ShareMachine, _ticket: Ticket, now: Now
        ) -> Decision[Mapping[SharePartitionId, Acknowledged]]:
            decision = machine.decide_end_transaction(
                producer_id, epoch, protocol_version, now, is_committed=marker.committed
            )
            for share_id, acknowledged in decision.result.items():
                self._shares.measurements.count(share_id, acknowledged)
            return decision

        return self._shares.shards[partition].submit(decide).map(_error_of)


def _error_of(outcome: Outcome[Mapping[SharePartitionId, Acknowledged]]) -> Outcome[None]:
    return outcome if isinstance(outcome, HeadwaterError) else None
