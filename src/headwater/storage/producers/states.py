"""What a log knows about each idempotent producer: its epoch, its newest batches, its transaction.

`check` refuses a batch, or recognises a duplicate, before it is appended; `update` accounts for it. A batch that is
sent again after a lost reply is recognised while it is among the producer's newest five; no other batch is ever taken
for a duplicate. Sequences count from 0 to 2^31-1 and on from 0; the broker's own batches for a producer have none.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches.batch import (
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Marker,
)
from headwater.storage.producers.open_transactions import OpenTransactions
from headwater.storage.producers.transaction_index import AbortedTransaction

BATCHES_REMEMBERED: Final = 5
PRODUCER_EPOCH_MAX: Final = 2**15 - 1
# Bounded: any client may invent producers. Beyond this many, the half that was silent for longest is evicted.
PRODUCERS_MAX: Final = 100_000
# From this version of the transaction protocol on (KIP-890) the end of each transaction raises its producer's epoch.
VERSION_WITH_EPOCH_BUMP: Final = 2
NO_COORDINATOR_EPOCH: Final = -1
_SEQUENCE_MASK: Final = 2**31 - 1


class ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


class ProducerState:
    """One producer in a log: its epoch, its newest batches, and its open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[ProducedBatch] = []  # the newest five, oldest first
        self.last_timestamp = NO_TIMESTAMP  # when the broker last heard from it
        self.coordinator_epoch = NO_COORDINATOR_EPOCH  # of its last marker
        self.current_txn_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def is_open_at(self, offset: int) -> bool:
        """Whether the producer's batch at `offset` belongs to the open transaction."""
        return self.current_txn_first_offset != NO_OFFSET and offset >= self.current_txn_first_offset

    def enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def copy(self) -> "ProducerState":
        same = ProducerState(self.producer_id, self.producer_epoch)
        same.batches = self.batches.copy()
        same.last_timestamp = self.last_timestamp
        same.coordinator_epoch = self.coordinator_epoch
        same.current_txn_first_offset = self.current_txn_first_offset
        return same


# A duplicate is answered with the offsets that the batch got the first time.
Duplicate = ProducedBatch


class ProducerStates:
    __slots__ = ("_states", "transactions")

    def __init__(self, states: Iterable[ProducerState] = ()) -> None:
        self._states = {state.producer_id: state for state in states}
        self.transactions = OpenTransactions(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """None: append it. Duplicate: the log has it already. Raises the Refusal of Kafka for any other batch."""
        state = self._states.get(header.producer_id)
        if state is None:
            # A producer that is unknown, or was forgotten with its records or by expiration, may use any sequence.
            return None
        if header.producer_epoch < state.producer_epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {state.producer_epoch}, the batch {header.producer_epoch}",
            )
        sequence = header.base_sequence
        if header.producer_epoch > state.producer_epoch:
            if sequence not in (0, NO_SEQUENCE) and state.producer_epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(header, f"epoch {header.producer_epoch} must begin at 0")
        elif sequence != (state.last_sequence + 1) & _SEQUENCE_MASK and sequence != NO_SEQUENCE:
            return _recognise(state, header)
        if state.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise Refusal(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} sent a plain batch into its transaction",
            )
        return None

    def update(self, header: BatchHeader, now_ms: int) -> None:
        """Accounts for a data batch that has its offset. A batch that is known already changes nothing."""
        producer_id = header.producer_id
        if producer_id < 0 or header.is_control:
            return
        state = self._states.get(producer_id) or self._add(producer_id)
        batches = state.batches
        base_offset = header.base_offset
        last_offset = base_offset + header.last_offset_delta
        if batches and batches[-1].last_offset >= last_offset:
            return
        if header.producer_epoch != state.producer_epoch:
            state.enter_epoch(header.producer_epoch)
        elif len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append(ProducedBatch(header.base_sequence, header.last_sequence, base_offset, last_offset))
        state.last_timestamp = now_ms
        if header.is_transactional and state.current_txn_first_offset == NO_OFFSET:
            state.current_txn_first_offset = base_offset
            self.transactions.begin(base_offset)

    def check_marker(self, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int) -> None:
        """Refuses a marker of a fenced coordinator, or of an earlier transaction than the open one. A marker that ends
        nothing is fine: the reply to it was lost, or the producer never wrote here."""
        if producer_id < 0 or producer_epoch < 0:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"a marker for producer {producer_id} of epoch {producer_epoch} ends nothing"
            )
        state = self._states.get(producer_id)
        if state is None:
            return
        is_older = producer_epoch < state.producer_epoch
        if producer_epoch == state.producer_epoch < PRODUCER_EPOCH_MAX:
            # With KIP-890 a marker raises the epoch: this one ended the transaction before the open one.
            is_older = transaction_version >= VERSION_WITH_EPOCH_BUMP and state.current_txn_first_offset != NO_OFFSET
        if is_older:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {state.producer_epoch}, the marker {producer_epoch}",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise Refusal(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {producer_id} had a marker of coordinator epoch {state.coordinator_epoch}, "
                f"this one has {marker.coordinator_epoch}",
            )

    def end_transaction(self, header: BatchHeader, marker: Marker, now_ms: int) -> AbortedTransaction | None:
        """Accounts for a marker. Returns the entry of the transaction that it aborts, if it aborts one."""
        state = self._states.get(header.producer_id) or self._add(header.producer_id)
        first_offset = state.current_txn_first_offset
        last_stable_offset = self.transactions.end(state.copy(), header.base_offset)
        state.enter_epoch(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.current_txn_first_offset = NO_OFFSET
        state.last_timestamp = now_ms
        if marker.committed or first_offset == NO_OFFSET:
            return None
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, last_stable_offset)

    def _add(self, producer_id: int) -> ProducerState:
        count = len(self._states)
        # If most producers are in a transaction, few can be evicted: then it is tried again only after many more.
        if count >= PRODUCERS_MAX and count % (PRODUCERS_MAX // 2) == 0:
            for silent in sorted(self._idle(), key=_last_timestamp)[: PRODUCERS_MAX // 2]:
                del self._states[silent.producer_id]
        state = self._states[producer_id] = ProducerState(producer_id)
        return state

    def _idle(self) -> list[ProducerState]:
        return [state for state in self._states.values() if state.current_txn_first_offset == NO_OFFSET]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that have been silent for that long, except those with an open transaction."""
        for state in self._idle():
            if now_ms - state.last_timestamp >= expiration_ms:
                del self._states[state.producer_id]

    def truncate(self, offset: int) -> bool:
        """Forgets the batches at `offset` and after it. False: the states of some producers have to be rebuilt."""
        past = self.transactions.take_back(offset)
        is_complete = past is not None
        for state in past or ():
            self._put_back(self._states, state)
        for state in list(self._states.values()):
            if state.last_offset >= offset:
                state.batches = [batch for batch in state.batches if batch.last_offset < offset]
                if state.current_txn_first_offset >= offset:
                    state.current_txn_first_offset = NO_OFFSET
                if not state.batches:
                    is_complete = False
                    del self._states[state.producer_id]
        self.transactions.reopen(self._states.values())
        return is_complete

    @staticmethod
    def _put_back(states: dict[int, ProducerState], past: ProducerState) -> None:
        if past.producer_epoch == NO_PRODUCER_EPOCH:
            # The producer was unknown before its marker.
            states.pop(past.producer_id, None)
        else:
            states[past.producer_id] = past

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Adds the batches before each producer's last, which a snapshot does not have, from headers just before it."""
        earlier = ProducerStates()
        for header in headers:
            earlier.update(header, header.max_timestamp)
        for past in earlier._states.values():
            # The headers do not tell markers, so nothing is known about its transactions.
            past.current_txn_first_offset = NO_OFFSET
            state = self._states.setdefault(past.producer_id, past)
            if state is not past and state.producer_epoch == past.producer_epoch:
                first_known = state.batches[0].base_offset if state.batches else past.last_offset + 1
                older = [batch for batch in past.batches if batch.last_offset < first_known]
                state.batches = (older + state.batches)[-BATCHES_REMEMBERED:]

    def before(self, offset: int) -> list[ProducerState]:
        """The states at `offset`, as far as they are still known: batches may be staged beyond it."""
        states = self._states.copy()
        for past in self.transactions.states_before(offset):
            self._put_back(states, past)
        known: list[ProducerState] = []
        for state in states.values():
            past = state.copy()
            past.batches = [batch for batch in state.batches if batch.last_offset < offset]
            if past.current_txn_first_offset >= offset:
                past.current_txn_first_offset = NO_OFFSET
            # A producer that is known from a marker may have had no batch yet. But one with as many batches as are
            # remembered may have had others, which are not known any more: then its next sequence is unknown, too.
            had_none = state.coordinator_epoch != NO_COORDINATOR_EPOCH and len(state.batches) < BATCHES_REMEMBERED
            if past.batches or not state.batches or past.current_txn_first_offset != NO_OFFSET or had_none:
                known.append(past)
        return known


def _last_timestamp(state: ProducerState) -> int:
    return state.last_timestamp


def _recognise(state: ProducerState, header: BatchHeader) -> Duplicate:
    for batch in state.batches:
        if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
            if header.is_transactional and not state.is_open_at(batch.base_offset):
                # No client ends a transaction whose batches it still sends. But librdkafka, after giving up a batch
                # that the log has, reuses its sequence for records of the next transaction, which must not be lost.
                # This error code makes it abort, raise its epoch and try again.
                raise Refusal(
                    ErrorCode.UNKNOWN_PRODUCER_ID,
                    f"producer {header.producer_id} sent sequence {header.base_sequence}, of a transaction that ended",
                )
            return batch
    # An older sequence may be of a batch that was refused while its successor was accepted. Clients take "duplicate"
    # for success, so only a batch that is known to be in the log gets that answer.
    raise _out_of_order(header, f"{(state.last_sequence + 1) & _SEQUENCE_MASK} is due")


def _out_of_order(header: BatchHeader, expected: str) -> Refusal:
    return Refusal(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, {expected}",
    )
