"""Records of queues in JSON: with the topic that they come from, and how often they were delivered."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from headwater.broker.shares.queue import RECEIPTS_MAX, ReceivedRecord, Settlement
from headwater.broker.shares.queue_views import PeekedRecord
from headwater.coordination.shares.terms import AcknowledgeType, DeliveryState
from headwater.errors import HeadwaterError
from headwater.ids import TopicPartition
from headwater.listeners.http.records.json_form import Format, HeaderForm, content_form, header_forms
from headwater.protocol.batches.records import Record

ReceiptList: TypeAlias = Annotated[list[str], msgspec.Meta(min_length=1, max_length=RECEIPTS_MAX)]
Duration: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]

_STATES = {
    DeliveryState.AVAILABLE: "available",
    DeliveryState.ACQUIRED: "held",
    DeliveryState.WAITING: "waiting",
    DeliveryState.PENDING: "pending",
}


class QueueRecordForm(msgspec.Struct, omit_defaults=True):
    """A record of a queue."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    # How often it was delivered, this time included.
    delivery_count: int
    key: Raw | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[HeaderForm] = []
    # What settles this delivery; of a record that was received.
    receipt: str | UnsetType = UNSET
    # available, held, waiting, or pending in a transaction; of a record that was peeked at.
    state: str | UnsetType = UNSET


class SettlementForm(msgspec.Struct, omit_defaults=True):
    """Whether a receipt counted. Empty if it did."""

    error: str = ""
    # Kafka's name of the error.
    code: str = ""


def received_form(received: ReceivedRecord, form: Format) -> QueueRecordForm:
    shown = _form(received.where, received.record, received.delivery_count, form)
    shown.receipt = received.receipt
    return shown


def peeked_form(peeked: PeekedRecord, form: Format) -> QueueRecordForm:
    shown = _form(peeked.where, peeked.record, peeked.delivery_count, form)
    shown.state = _STATES[peeked.state]
    return shown


def _form(where: TopicPartition, record: Record, delivery_count: int, form: Format) -> QueueRecordForm:
    shown = QueueRecordForm(where.topic, where.partition, record.offset, record.timestamp, delivery_count)
    shown.key, shown.key_base64 = content_form(record.key, form)
    shown.value, shown.value_base64 = content_form(record.value, form)
    if record.headers:
        shown.headers = header_forms(record.headers)
    return shown


def settlements(receipts: Sequence[str], outcome: AcknowledgeType, duration_ms: int | None) -> list[Settlement]:
    return [Settlement(receipt, outcome, duration_ms) for receipt in receipts]


def settlement_forms(outcomes: Sequence[HeadwaterError | None]) -> list[SettlementForm]:
    return [
        SettlementForm() if refusal is None else SettlementForm(str(refusal), refusal.code.name) for refusal in outcomes
    ]
