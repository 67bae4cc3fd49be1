"""Receipts: what a client that receives without being a member shows when it says what becomes of a record.

A receipt names a delivery: the record, how often it was delivered, and the hold, a random name that each receive gets
and under which the share-partition holds its records. A key authenticates all of it together with the group. The key
lives as long as the broker's process, and so do holds: a restart ends both.
"""

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicId

# The topic's id, partition, offset, delivery count and nonce.
_DELIVERY = Struct(">16sIqB12s")
_NONCE_BYTES = 12
_SEAL_BYTES = 16
# In URLs, shells and file names they mean nothing: base64url has a hyphen, with which an option begins.
_ALPHABET_ENDS = b"._"
# No padding: both together are a multiple of three bytes.
RECEIPT_LENGTH: Final = (_DELIVERY.size + _SEAL_BYTES) * 4 // 3

# Members choose their ids: none of them has such a name by accident, and none can guess a nonce.
_HOLD_PREFIX = "receive-"


class Delivery(NamedTuple):
    """What a receipt stands for."""

    topic_id: TopicId
    partition: int
    offset: int
    delivery_count: int
    nonce: bytes

    @property
    def hold(self) -> MemberId:
        return hold_of(self.nonce)


def new_nonce() -> bytes:
    return secrets.token_bytes(_NONCE_BYTES)


def hold_of(nonce: bytes) -> MemberId:
    """In place of a member id, where a share-partition knows who holds a record."""
    return MemberId(_HOLD_PREFIX + nonce.hex())


class ReceiptKey:
    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def receipt(self, group_id: GroupId, delivery: Delivery) -> str:
        packed = _DELIVERY.pack(delivery.topic_id.bytes, *delivery[1:])
        return b64encode(packed + self._seal(group_id, packed), _ALPHABET_ENDS).decode()

    def delivery(self, group_id: GroupId, receipt: str) -> Delivery:
        """Refuses a receipt that this process has not given to a client of the group."""
        try:
            content = b64decode(receipt, _ALPHABET_ENDS, validate=True) if len(receipt) == RECEIPT_LENGTH else b""
        except (NotBase64, ValueError):
            content = b""
        packed, seal = content[: _DELIVERY.size], content[_DELIVERY.size :]
        if not hmac.compare_digest(seal, self._seal(group_id, packed)):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"this is no receipt of group '{group_id}': it is damaged or of another group, or the broker was "
                "restarted since, which makes all records available again",
            )
        topic_id, *others = _DELIVERY.unpack(packed)
        return Delivery(TopicId(UUID(bytes=topic_id)), *others)

    def _seal(self, group_id: GroupId, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed + group_id.encode(errors="surrogatepass"), "sha256")[:_SEAL_BYTES]
