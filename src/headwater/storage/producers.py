"""What the log knows about each idempotent producer: its epoch and its newest batches.

`check` refuses, or recognises, a batch before it is appended; `update` takes it in. A batch sent again after a lost
reply is recognised while it is among the producer's newest five; nothing else is ever taken for one that is in the log.
Sequences count from 0 to 2^31-1 and on from 0.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headwater.errors import ErrorCode, KafkaError
from headwater.protocol.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Marker,
)

BATCHES_REMEMBERED: Final = 5
NO_OFFSET: Final = -1
_SEQUENCE_MASK: Final = 2**31 - 1


class ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


# What a duplicate is answered with: where the batch went the first time.
Duplicate = ProducedBatch


class ProducerState:
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
        self.last_timestamp = NO_TIMESTAMP  # when the broker last heard of it
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()


class ProducerStates:
    __slots__ = ("_states",)

    def __init__(self, states: Iterable[ProducerState] = ()) -> None:
        self._states = {state.producer_id: state for state in states}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """None: append it. A duplicate: it is in the log already. Anything else is refused as Kafka refuses it."""
        state = self._states.get(header.producer_id)
        if state is None:
            # Whoever is unknown, or was forgotten with its records or for its silence, may go on at any sequence.
            return None
        if header.producer_epoch < state.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {state.producer_epoch}, the batch {header.producer_epoch}",
            )
        if header.producer_epoch > state.producer_epoch:
            if header.base_sequence != 0 and state.producer_epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(header, f"epoch {header.producer_epoch} must begin at 0")
        elif header.base_sequence != (state.last_sequence + 1) & _SEQUENCE_MASK:
            return _recognise(state, header)
        if state.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} sent a plain batch into its transaction",
            )
        return None

    def update(self, header: BatchHeader, now_ms: int) -> None:
        """Takes in a data batch that has its offset. A batch that is known already changes nothing."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or header.is_control:
            return
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id)
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
            state.current_txn_first_offset = header.base_offset

    def end_transaction(self, header: BatchHeader, marker: Marker, now_ms: int) -> None:
        """Takes in the control batch that commits or aborts what the producer wrote."""
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(header.producer_id)
        state.enter_epoch(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.current_txn_first_offset = NO_OFFSET
        state.last_timestamp = now_ms

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets who has been silent for so long, unless in the middle of a transaction."""
        for state in list(self._states.values()):
            if state.current_txn_first_offset == NO_OFFSET and now_ms - state.last_timestamp >= expiration_ms:
                del self._states[state.producer_id]

    def truncate(self, offset: int) -> bool:
        """Forgets batches at `offset` and after it. False: of some producer nothing is left that could be relied on."""
        is_complete = True
        for state in list(self._states.values()):
            if state.last_offset >= offset:
                state.batches = [batch for batch in state.batches if batch.last_offset < offset]
                if state.current_txn_first_offset >= offset:
                    state.current_txn_first_offset = NO_OFFSET
                if not state.batches:
                    is_complete = False
                    del self._states[state.producer_id]
        return is_complete

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Refills what a snapshot cannot hold, the batches before each producer's last, from the log just before it."""
        earlier = ProducerStates()
        for header in headers:
            earlier.update(header, header.max_timestamp)
        for past in earlier._states.values():
            state = self._states.setdefault(past.producer_id, past)
            if state is not past and state.producer_epoch == past.producer_epoch:
                first_known = state.batches[0].base_offset if state.batches else past.last_offset + 1
                older = [batch for batch in past.batches if batch.last_offset < first_known]
                state.batches = (older + state.batches)[-BATCHES_REMEMBERED:]

    def before(self, offset: int) -> list[ProducerState]:
        """The states as they were at `offset`, as far as they are still known: batches may be staged beyond it."""
        known: list[ProducerState] = []
        for state in self._states.values():
            batches = [batch for batch in state.batches if batch.last_offset < offset]
            if batches or not state.batches:
                past = ProducerState(state.producer_id, state.producer_epoch)
                past.batches = batches
                past.last_timestamp = state.last_timestamp
                past.coordinator_epoch = state.coordinator_epoch
                if state.current_txn_first_offset < offset:
                    past.current_txn_first_offset = state.current_txn_first_offset
                known.append(past)
        return known


def _recognise(state: ProducerState, header: BatchHeader) -> Duplicate:
    for batch in state.batches:
        if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
            return batch
    # An older sequence may be one that was refused while its successor was accepted. Clients take "duplicate" for
    # success, so that is the answer to none but a batch which is known to be in the log.
    raise _out_of_order(header, f"{(state.last_sequence + 1) & _SEQUENCE_MASK} is due")


def _out_of_order(header: BatchHeader, expected: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, {expected}",
    )
