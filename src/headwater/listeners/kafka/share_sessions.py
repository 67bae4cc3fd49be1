"""Share sessions (KIP-932): a member of a share group names its partitions once and then only changes.

There is one for each member that fetches. It ends with its connection, and what the member holds is given back then.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias
from uuid import UUID

from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
# Over all sessions. Bounded, because the partitions that a client names stay in memory.
PARTITIONS_MAX = 200_000
MEMBER_ID_LENGTH_MAX = 255

# The topic's id and the partition.
Key: TypeAlias = tuple[UUID, int]


class ConnectionLink:
    """What is to be done when a connection has closed."""

    __slots__ = ("on_end",)

    def __init__(self) -> None:
        self.on_end: Callable[[], None] | None = None


class ShareSession:
    __slots__ = ("epoch", "group_id", "link", "member_id", "partitions")

    def __init__(self, group_id: GroupId, member_id: MemberId, link: ConnectionLink) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.link = link
        self.epoch = 1
        # In the order in which they are served next.
        self.partitions: dict[Key, None] = {}

    def rotate(self, served: Iterable[Key]) -> None:
        """Move partitions that were served to the end, so that none of them starves under a limit."""
        for key in served:
            if key in self.partitions:
                del self.partitions[key]
                self.partitions[key] = None


class ShareSessions:
    def __init__(self, sessions_max: int, give_back: Callable[[ShareSession], None]) -> None:
        """`give_back` is called for a session that ends."""
        self._sessions: dict[tuple[GroupId, MemberId], ShareSession] = {}
        self._sessions_max = sessions_max
        self._give_back = give_back
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: GroupId, member_id: MemberId, link: ConnectionLink) -> ShareSession:
        """Begin a session, in place of the member's former one. What the member holds it keeps: it may go on to
        acknowledge it."""
        self._remove((group_id, member_id))
        if len(self._sessions) >= self._sessions_max:
            raise Refusal(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"there are {self._sessions_max} share sessions already (group.share.max.share.sessions)",
            )
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, link)
        link.on_end = lambda: self._end_all(link)
        return session

    def existing(self, group_id: GroupId, member_id: MemberId, epoch: int, link: ConnectionLink) -> ShareSession:
        """The session that the member goes on with, or ends."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise Refusal(
                ErrorCode.SHARE_SESSION_NOT_FOUND, f"member '{member_id}' of '{group_id}' has no share session"
            )
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise Refusal(
                    ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"share session epoch is {session.epoch}, not {epoch}"
                )
            session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        if session.link is not link:
            session.link = link
            link.on_end = lambda: self._end_all(link)
        return session

    def change(self, session: ShareSession, added: Iterable[Key], forgotten: Iterable[Key]) -> None:
        before = len(session.partitions)
        for key in added:
            session.partitions.setdefault(key)
        for key in forgotten:
            session.partitions.pop(key, None)
        self._partition_count += len(session.partitions) - before
        if self._partition_count > PARTITIONS_MAX:
            self.end(session)
            raise Refusal(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"all share sessions name {PARTITIONS_MAX} partitions already"
            )

    def end(self, session: ShareSession) -> None:
        """The member gives back what it holds."""
        if self._sessions.get((session.group_id, session.member_id)) is session:
            self._remove((session.group_id, session.member_id))
            self._give_back(session)

    def _remove(self, key: tuple[GroupId, MemberId]) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def _end_all(self, link: ConnectionLink) -> None:
        for session in [each for each in self._sessions.values() if each.link is link]:
            self.end(session)


def check_names(group_id: str | None, member_id: str | None) -> tuple[GroupId, MemberId]:
    if not group_id or not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a group id and a member id are needed")
    return GroupId(group_id), MemberId(member_id)
