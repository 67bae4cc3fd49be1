"""The requests to a broker, and the time of its promises, counted in steps of its disk.

A crash after step `n` keeps everything acknowledged by then, and may keep anything requested before.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from headwater.ids import TopicName
from headwater.security.acl import Acl

NEVER = 1 << 60


@dataclass
class Span:
    asked: int
    acknowledged: int = NEVER


@dataclass
class Sent:
    """A record that got an offset."""

    key: bytes | None
    value: bytes
    span: Span
    transaction: "Transaction | None" = None


@dataclass
class Transaction:
    records: "list[tuple[TopicHistory, int, int]]" = field(default_factory=list)
    # Group and offset.
    commits: list[tuple[str, int]] = field(default_factory=list)
    is_commit: bool = False
    end: Span | None = None

    def is_committed_by(self, step: int) -> bool:
        return self.is_commit and self.end is not None and self.end.acknowledged <= step

    def may_be_committed_by(self, step: int) -> bool:
        return self.is_commit and self.end is not None and self.end.asked < step


@dataclass
class PartitionHistory:
    sent: dict[int, Sent] = field(default_factory=dict)
    # The offset up to which records were deleted.
    deletions: list[tuple[int, Span]] = field(default_factory=list)

    def least_start(self, step: int) -> int:
        return max((offset for offset, span in self.deletions if span.acknowledged <= step), default=0)

    def greatest_start(self, step: int) -> int:
        return max((offset for offset, span in self.deletions if span.asked < step), default=0)


@dataclass(eq=False)
class TopicHistory:
    name: TopicName
    is_compacted: bool
    created: Span
    partitions: list[PartitionHistory]
    deleted: Span | None = None

    def must_exist(self, step: int) -> bool:
        return self.created.acknowledged <= step and (self.deleted is None or self.deleted.asked >= step)

    def may_exist(self, step: int) -> bool:
        return self.created.asked < step and (self.deleted is None or self.deleted.acknowledged > step)


@dataclass
class History:
    topics: list[TopicHistory] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    # The offsets that each committed outside of transactions, in their order.
    groups: dict[str, list[tuple[int, Span]]] = field(default_factory=lambda: defaultdict(list))
    # Whether each rule was added or removed, in their order.
    rules: dict[Acl, list[tuple[bool, Span]]] = field(default_factory=lambda: defaultdict(list))
