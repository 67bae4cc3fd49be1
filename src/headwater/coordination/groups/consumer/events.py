"""What a consumer group remembers only until the next restart: when members must have been heard of, and which topics
it has looked at."""

from dataclasses import dataclass

from headwater.coordination.decisions import Volatile
from headwater.ids import GroupId, MemberId

# The kinds of deadlines. A member whose deadline comes is removed from the group.
SESSION = "consumer-session"
# A member must give up partitions that others wait for.
REBALANCE = "consumer-rebalance"
# A member that speaks the classic protocol must join again, or fetch its assignment.
CLASSIC_JOIN = "consumer-classic-join"
CLASSIC_SYNC = "consumer-classic-sync"

DEADLINE_KINDS = (SESSION, REBALANCE, CLASSIC_JOIN, CLASSIC_SYNC)


@dataclass(frozen=True, slots=True)
class ConsumerVolatile(Volatile):
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class MemberDeadlineSet(ConsumerVolatile):
    kind: str
    member_id: MemberId
    due_ms: int


@dataclass(frozen=True, slots=True)
class MemberDeadlineCancelled(ConsumerVolatile):
    kind: str
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class TopicsSeen(ConsumerVolatile):
    """The group has taken the topics of this version into account."""

    version: int
