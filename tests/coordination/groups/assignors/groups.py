"""Groups for the assignors' tests: written by hand in a short form, and drawn by Hypothesis."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from hypothesis import strategies as st

from headwater.coordination.groups.assignment import NOTHING, Assignment, assignment_of
from headwater.coordination.groups.assignors.assignor import MemberSubscription, SubscribedTopic
from headwater.ids import MemberId, TopicId

Topics = Mapping[TopicId, SubscribedTopic]
Members = Sequence[MemberSubscription]
Targets = Mapping[MemberId, Assignment]

IDS = [TopicId(UUID(int=number)) for number in range(8)]
ORDERS, USERS, VIEWS = IDS[1:4]
RACKS = ["east", "north", "south", "west"]


def topics(*partition_counts: tuple[TopicId, int]) -> dict[TopicId, SubscribedTopic]:
    return {topic_id: SubscribedTopic(topic_id, count) for topic_id, count in partition_counts}


def racked(topic_id: TopicId, *racks: str) -> SubscribedTopic:
    """Each string has the racks of one partition."""
    return SubscribedTopic(topic_id, len(racks), [frozenset(partition.split()) for partition in racks])


def member(
    member_id: str,
    *topic_ids: TopicId,
    instance_id: str | None = None,
    rack_id: str | None = None,
    assigned: Assignment = NOTHING,
) -> MemberSubscription:
    return MemberSubscription(MemberId(member_id), instance_id, rack_id, frozenset(topic_ids), assigned)


def holding(**partitions: set[int]) -> Assignment:
    """Partitions of topics by the names of the constants above, in small letters."""
    ids = {"orders": ORDERS, "users": USERS, "views": VIEWS}
    return {ids[name]: frozenset(those) for name, those in partitions.items()}


def settled(members: Members, targets: Targets) -> list[MemberSubscription]:
    """The members after the targets have been stored."""
    return [member._replace(assigned=targets[member.member_id]) for member in members]


def pairs(assignment: Assignment) -> set[tuple[TopicId, int]]:
    return {(topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions}


def size(assignment: Assignment) -> int:
    return len(pairs(assignment))


def near_count(members: Members, known: Topics, targets: Targets) -> int:
    """How many partitions have a replica in the rack of their member."""
    return sum(
        bool(known[topic_id].racks) and member.rack_id in known[topic_id].racks[partition]
        for member in members
        for topic_id, partition in pairs(targets[member.member_id])
    )


def blind(known: Topics) -> Topics:
    """The same topics without racks."""
    return {topic_id: topic._replace(racks=()) for topic_id, topic in known.items()}


@st.composite
def groups(
    draw: st.DrawFn, *, is_homogeneous: bool = False, has_racks: bool = False
) -> tuple[list[MemberSubscription], dict[TopicId, SubscribedTopic]]:
    """Any group, including ones with outdated targets: deleted topics, partitions with two owners or out of range.

    Sets are drawn as the bits of one number, because drawing them element by element takes most of a test's time.
    """
    known = {
        topic_id: SubscribedTopic(topic_id, count, _racks(bits, count) if has_racks and bits else ())
        for topic_id, (count, bits) in zip(IDS, draw(st.lists(_topics, max_size=6)), strict=False)
        if count
    }
    shared = draw(_subscriptions)
    members = [
        MemberSubscription(
            MemberId(member_id),
            f"instance-of-{member_id}" if is_static else None,
            rack_id if has_racks else None,
            shared if is_homogeneous else subscription,
            assigned,
        )
        for member_id, (is_static, rack_id, subscription, assigned) in zip(
            "cgaehbdf", draw(st.lists(_members, min_size=1, max_size=8)), strict=False
        )
    ]
    return members, known


def _chosen(bits: int, count: int) -> Iterator[int]:
    return (number for number in range(count) if bits >> number & 1)


def _assigned(bits: int) -> Assignment:
    return assignment_of((IDS[number % len(IDS)], number // len(IDS)) for number in _chosen(bits, len(IDS) * 11))


def _racks(bits: int, count: int) -> Sequence[frozenset[str]]:
    return [
        frozenset(RACKS[number] for number in _chosen(bits >> len(RACKS) * partition, len(RACKS)))
        for partition in range(count)
    ]


def _number_of(bit_count: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bit_count) - 1)


_subscriptions = _number_of(len(IDS)).map(lambda bits: frozenset(IDS[number] for number in _chosen(bits, len(IDS))))
# Few bits are set, so that members do not all claim the same partitions.
_assignments = st.tuples(_number_of(88), _number_of(88)).map(lambda bits: _assigned(bits[0] & bits[1] & bits[0] >> 7))
_members = st.tuples(st.booleans(), st.sampled_from([None, "nowhere", *RACKS]), _subscriptions, _assignments)
# Topics: the number of partitions, and their racks.
_topics = st.tuples(st.integers(0, 9), st.just(0) | _number_of(9 * len(RACKS)))
