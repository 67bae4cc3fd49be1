"""Receipts: only the process that gave one takes it, for the same group, unchanged."""

from base64 import b64encode
from string import ascii_letters, digits
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.shares.receipts import RECEIPT_LENGTH, Delivery, ReceiptKey, hold_of, new_nonce
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, TopicId

BILLING = GroupId("billing")
KEY = ReceiptKey()
DELIVERY = Delivery(TopicId(UUID(int=7)), 3, 1 << 40, 5, b"\x01" * 12)
ALPHABET = ascii_letters + digits + "._"


def refused(key: ReceiptKey, group_id: str, receipt: str) -> ErrorCode:
    with pytest.raises(Refusal, match="no receipt of group") as refusal:
        key.delivery(GroupId(group_id), receipt)
    return refusal.value.code


@given(
    st.builds(
        Delivery,
        st.uuids().map(TopicId),
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(1, 25),
        st.binary(min_size=12, max_size=12),
    ),
    st.text(),
)
def test_a_receipt_stands_for_its_delivery(delivery: Delivery, group_id: str) -> None:
    receipt = KEY.receipt(GroupId(group_id), delivery)
    assert len(receipt) == RECEIPT_LENGTH
    assert set(receipt) <= set(ALPHABET)
    assert KEY.delivery(GroupId(group_id), receipt) == delivery


def test_a_receipt_is_for_one_group_and_one_process() -> None:
    receipt = KEY.receipt(BILLING, DELIVERY)
    assert refused(KEY, "billinG", receipt) is ErrorCode.INVALID_REQUEST
    assert refused(KEY, "", receipt) is ErrorCode.INVALID_REQUEST
    assert refused(ReceiptKey(), BILLING, receipt) is ErrorCode.INVALID_REQUEST


@given(st.integers(0, RECEIPT_LENGTH - 1), st.sampled_from(ALPHABET))
def test_no_character_of_a_receipt_can_be_changed(position: int, character: str) -> None:
    receipt = KEY.receipt(BILLING, DELIVERY)
    forged = receipt[:position] + character + receipt[position + 1 :]
    if forged != receipt:
        refused(KEY, BILLING, forged)


@given(st.text(max_size=100) | st.text(alphabet=ALPHABET, min_size=RECEIPT_LENGTH, max_size=RECEIPT_LENGTH))
def test_anything_else_is_refused(text: str) -> None:
    refused(KEY, BILLING, text)


@pytest.mark.parametrize("text", ["", "=" * RECEIPT_LENGTH, "\ud800" * RECEIPT_LENGTH, "A" * 10_000_000, "é" * 76])
def test_odd_text_is_refused(text: str) -> None:
    refused(KEY, BILLING, text)


def test_a_seal_that_is_cut_off_seals_nothing() -> None:
    receipt = KEY.receipt(BILLING, DELIVERY)
    refused(KEY, BILLING, receipt[:-4])
    refused(KEY, BILLING, receipt + "AAAA")
    refused(KEY, BILLING, b64encode(b"", b"._").decode())


def test_holds_have_names_that_nobody_can_guess() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len({hold_of(nonce) for nonce in nonces}) == 100
