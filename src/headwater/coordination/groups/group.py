"""What the machine of a shard asks of a group, whatever its kind.

The machine finds the group that a command is for and keeps the offsets; everything else is for the group to decide.
A group of one kind also gets requests of other protocols, which it serves or refuses. What turns a group of one kind
into another is in `migration`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket, Waiting
from headwater.coordination.groups.classic.commands import Join, JoinResult, Leave, LeaveResult, Sync, SyncResult
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.offsets.offsets import ExpiryRule
from headwater.coordination.groups.terms import DeadlineKey, GroupState, GroupType, TopicImage
from headwater.errors import ErrorCode
from headwater.ids import GroupId, MemberId, TopicName


class Group(Protocol):
    """Pure, as the machine is: `decide_*` returns events and changes nothing, `apply` is the only writer."""

    @property
    def type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """The protocol type that its members give, such as consumer; empty if no member has ever joined."""
        ...

    @property
    def state(self) -> GroupState: ...

    @property
    def is_pristine(self) -> bool:
        """Whether no member has ever joined and none is expected: without offsets, such a group need not exist."""
        ...

    @property
    def may_expire(self) -> bool:
        """Whether the group goes when it has neither members nor offsets; otherwise an administrator deletes it."""
        ...

    @property
    def weight(self) -> int:
        """About how many bytes of memory the group takes."""
        ...

    def weight_of(self, member_id: MemberId) -> int:
        """The member's share of the weight; 0 if there is no such member."""
        ...

    def apply(self, event: Any, /) -> None:
        """Takes the events that its `GroupKind` lists; any other event raises."""
        ...

    # -- requests of the classic protocol

    def decide_join(self, join: Join, ticket: Ticket, now: Now) -> Decision[JoinResult | Waiting]: ...

    def decide_sync(self, sync: Sync, ticket: Ticket, now: Now) -> Decision[SyncResult | Waiting]: ...

    def weight_added_by(self, sync: Sync) -> int:
        """By how much the assignments that a leader brings may raise the group's weight."""
        ...

    def decide_heartbeat(
        self, member_id: MemberId, instance_id: str | None, generation: int, now: Now
    ) -> Decision[ErrorCode]: ...

    def decide_leave(self, leaving: Sequence[Leave], now: Now) -> Decision[Sequence[LeaveResult]]: ...

    # -- committed offsets

    def decide_commit(self, commit: Commit, *, is_transactional: bool, now: Now) -> Sequence[object]:
        """Refuses a client that may not commit for the group. Events: a commit may show that a member is alive."""
        ...

    def check_fetch(self, member_id: MemberId | None, epoch: int) -> None:
        """Refuses a client that fetches offsets as a member which it no longer is."""
        ...

    def check_offsets_deletable(self) -> None:
        """Refuses if any offset may be in use, because the subscriptions of the members are not known."""
        ...

    def is_subscribed_to(self, topic: TopicName) -> bool: ...

    def expiry_rule(self) -> ExpiryRule | None:
        """None keeps all offsets, whatever their age: members may come back to any of them."""
        ...

    # -- administration and time

    def decide_delete(self) -> Sequence[object]:
        """Events that end an empty group. Refuses if the group has members."""
        ...

    def decide_expired(self, kind: str, member_id: str, now: Now) -> Decision[None]:
        """A deadline of the group, of this kind, is due; the events move or cancel it."""
        ...

    def decide_loaded(self, now: Now) -> Sequence[object]:
        """What begins again after the group was rebuilt from its log, such as the sessions of its members."""
        ...


class GroupContext(NamedTuple):
    """What a machine shares with its groups."""

    config: GroupDefaults
    config_of: Callable[[GroupId], GroupConfig]
    deadlines: Deadlines[DeadlineKey]
    topics: TopicImage
