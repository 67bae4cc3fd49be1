"""What members of a share group do and are told, step by step: the same with our broker and with Apache Kafka."""

import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Self, TypeVar
from uuid import UUID

from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode
from headwater.ids import GroupId, TopicId
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.kafka.raw_client import RawClient, Reachable, batch_of
from tests.support.kafka.raw_groups import find
from tests.support.kafka.raw_share_states import ShareStates
from tests.support.kafka.raw_shares import (
    ACCEPT,
    FINAL,
    GAP,
    INITIAL,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    alter_offset,
    batches,
    configure,
    delete_offsets,
    describe,
    describe_offsets,
)

T = TypeVar("T")
DEADLINE_S = 60
SHARE_KEY = 2
WAIT_MS = 500


class Steps:
    """Collects what each step was answered."""

    def __init__(self, broker: Reachable, **settings: str) -> None:
        self.broker = broker
        self._clients: list[RawClient] = []
        self.client = self._connect()
        unique = secrets.token_hex(4)
        self.topic, self.group = f"orders-{unique}", f"billing-{unique}"
        self.topic_id = self._create()
        configure(self.client, self.group, **{"share_auto_offset_reset": "earliest", **settings})
        self.await_(lambda: find(self.client, self.group).coordinators[0].error_code, ErrorCode.NONE)
        self.told: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.socket.close()

    def _connect(self) -> RawClient:
        self._clients.append(RawClient(self.broker))
        return self._clients[-1]

    def _create(self) -> UUID:
        topic_id = self.client.create(self.topic)

        def state() -> int:
            asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID(int=0), name=self.topic)])
            (topic,) = self.client.ask(asked, MetadataResponse, 12).topics
            return topic.error_code or (ErrorCode.NONE if topic.partitions else ErrorCode.LEADER_NOT_AVAILABLE)

        self.await_(state, ErrorCode.NONE)
        return topic_id

    def await_(self, look: Callable[[], T], wanted: T) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while (found := look()) != wanted:
            assert time.monotonic() < deadline, f"{found}, not {wanted}"
            time.sleep(0.05)

    def member(self) -> Member:
        """A member with its assignment, on a connection of its own."""
        name = urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        member = Member(self._connect(), self.group, name)
        member.topic_id = self.topic_id
        deadline = time.monotonic() + DEADLINE_S
        # Kafka may still be loading the coordinator.
        while (told := member.beat(self.topic)).error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline, told.error_message
            time.sleep(0.05)
        # Kafka assigns a partition once its state is initialized.
        while told.assignment is None or not told.assignment.topic_partitions:
            assert time.monotonic() < deadline, "no assignment"
            time.sleep(0.05)
            told = member.beat()
        return member

    def produce(self, count: int = 10) -> None:
        produced = self.client.produce(self.topic, batch_of(*(b"%d" % each for each in range(count))))
        assert produced.error_code == ErrorCode.NONE

    def note(self, step: str, outcome: object) -> None:
        self.told[step] = outcome


def given(response: Any) -> Any:
    """What a fetch was answered, without texts and timing."""
    if response.error_code != ErrorCode.NONE:
        return ErrorCode(response.error_code).name
    found: list[object] = []
    for topic in response.responses:
        for each in topic.partitions:
            ranges: list[tuple[int, int, int]] = []
            for acquired in each.acquired_records:
                first, last, count = acquired.first_offset, acquired.last_offset, acquired.delivery_count
                # Kafka has a range for each batch.
                if ranges and ranges[-1][1] + 1 == first and ranges[-1][2] == count:
                    ranges[-1] = (ranges[-1][0], last, count)
                else:
                    ranges.append((first, last, count))
            found.append((ErrorCode(each.error_code).name, ErrorCode(each.acknowledge_error_code).name, ranges))
    return found


def said(response: Any) -> Any:
    """What an acknowledgement was answered."""
    if response.error_code != ErrorCode.NONE:
        return ErrorCode(response.error_code).name
    return [ErrorCode(each.error_code).name for topic in response.responses for each in topic.partitions]


def fetched(member: Member, *arguments: Any, **options: Any) -> Any:
    """A fetch that finds something, as often as it has to try: Kafka may answer before a partition is ready."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = given(member.ask(*arguments, **{"wait_ms": WAIT_MS, **options}))
        if isinstance(found, str) or any(each[2] for each in found):
            return found
        assert time.monotonic() < deadline, found


def acknowledgements(steps: Steps) -> None:
    steps.produce()
    member, note = steps.member(), steps.note
    note("all records", fetched(member))
    note("nothing is left", given(member.ask(wait_ms=0)))
    note("accept", said(member.acknowledge((0, 1, ACCEPT))))
    # Kafka takes it once more, as long as records of the same batch are not done with.
    member.acknowledge((0, 1, ACCEPT))
    note("one by one", said(member.acknowledge((2, 5, [ACCEPT, REJECT, RELEASE, GAP]))))
    note("released is given again", fetched(member))
    note("wrong number of types", said(member.acknowledge((4, 6, [ACCEPT, ACCEPT]))))
    note("no type", said(member.acknowledge((4, 6, []))))
    note("unknown type", said(member.acknowledge((6, 6, 9))))
    note("first after last", said(member.acknowledge((7, 6, ACCEPT))))
    note("out of order", said(member.acknowledge((8, 8, ACCEPT), (7, 7, ACCEPT))))
    note("overlap", said(member.acknowledge((7, 8, ACCEPT), (8, 8, ACCEPT))))
    note("beyond the end", said(member.acknowledge((9, 12, ACCEPT))))
    note("far beyond the end", said(member.acknowledge((100, 120, ACCEPT))))
    note("a renewal that is not announced", said(member.acknowledge((6, 6, RENEW))))
    note("a renewal", said(member.acknowledge((6, 6, RENEW), is_renew_ack=True)))
    note("a gap where a record is held", said(member.acknowledge((7, 7, GAP))))
    note("unknown partition", said(member.acknowledge((0, 0, ACCEPT), partition=7)))
    note("the rest", said(member.acknowledge((4, 4, ACCEPT), (6, 6, ACCEPT), (8, 9, ACCEPT))))
    described = describe_offsets(steps.client, steps.group)
    note(
        "offsets",
        [
            # Kafka moves the start offset lazily.
            (each.partition_index, each.lag, each.error_code)
            for topic in described.topics
            for each in topic.partitions
        ],
    )


def two_members(steps: Steps) -> None:
    for _ in range(3):
        steps.produce()
    one, other, note = steps.member(), steps.member(), steps.note
    note("one batch", fetched(one, records_max=1))
    note("the next", fetched(other, records_max=11))
    note("of the other", said(other.acknowledge((0, 4, ACCEPT))))
    # Whether the same fetch gets what it releases is a matter of time in Kafka.
    one.ask({0: batches((0, 4, ACCEPT), (7, 9, REJECT))}, wait_ms=0, records_max=1)
    note("released", said(one.acknowledge((5, 6, RELEASE))))
    note("released is given first", fetched(one, records_max=1, share_acquire_mode=1))
    note("released", said(one.acknowledge((5, 5, RELEASE))))
    note("the session ends", said(other.acknowledge((10, 14, ACCEPT), epoch=FINAL)))
    note("what it held, and what was released", [fetched(one, records_max=2), fetched(one)])
    note("members", len(describe(steps.client, steps.group).members))
    note("one leaves", one.beat(epoch=-1).member_epoch)
    note("the other stays", other.beat().error_code)


def limits(steps: Steps) -> None:
    steps.produce()
    member, note = steps.member(), steps.note
    note("strictly three", fetched(member, records_max=3, share_acquire_mode=1))
    note("released", said(member.acknowledge((0, 2, RELEASE))))
    note("again", fetched(member, records_max=3, share_acquire_mode=1))
    note("released for the last time", said(member.acknowledge((0, 2, RELEASE))))
    note("what comes next", fetched(member))


def sessions(steps: Steps) -> None:
    steps.produce()
    member, note = steps.member(), steps.note
    note("no session", given(member.ask(epoch=3)))
    note("no session to end", given(member.ask(epoch=FINAL)))
    note("no session for an acknowledgement", said(member.acknowledge((0, 0, ACCEPT), epoch=1)))
    note("no session to begin with an acknowledgement", said(member.acknowledge((0, 0, ACCEPT), epoch=INITIAL)))
    note("acknowledging at first", given(member.ask({0: batches((0, 0, ACCEPT))}, wait_ms=0)))
    note("begin", fetched(member))
    note("wrong epoch", given(member.ask(epoch=9)))
    note("wrong epoch of an acknowledgement", said(member.acknowledge((0, 0, ACCEPT), epoch=9)))
    note("right epoch", said(member.acknowledge((0, 0, ACCEPT))))
    member.session_epoch = INITIAL
    first = given(member.ask(wait_ms=0))
    note("begin again", first)
    note("what it held is still held", said(member.acknowledge((1, 1, ACCEPT))))
    note("no member", given(member.ask(member_id=None)))
    note("no group", given(member.ask(group_id=None)))


def administration(steps: Steps) -> None:
    steps.produce()
    member, note, client = steps.member(), steps.note, steps.client
    fetched(member)
    member.acknowledge((0, 9, ACCEPT))
    note("a group with members keeps its offsets", alter_offset(client, steps.group, steps.topic, 3).error_code)
    note("and its topics", delete_offsets(client, steps.group, steps.topic).error_code)
    member.beat(epoch=-1)
    altered = alter_offset(client, steps.group, steps.topic, 3)
    note("without members", [each.error_code for topic in altered.responses for each in topic.partitions])
    deleted = delete_offsets(client, steps.group, steps.topic)
    note("deleted", [each.error_code for each in deleted.responses])
    missing = delete_offsets(client, steps.group, "none")
    note("of an unknown topic", [each.error_code for each in missing.responses])
    note("of an unknown group", delete_offsets(client, "none", steps.topic).error_code)
    note("described", describe(client, "none").error_code)
    note("offsets of an unknown group", describe_offsets(client, "none").error_code)


def heartbeats(steps: Steps) -> None:
    member, note = steps.member(), steps.note
    note("state", describe(steps.client, steps.group).group_state)
    for step, epoch in (("too new", member.epoch + 5), ("meaningless", -3)):
        note(step, member.beat(epoch=epoch).error_code)
    stranger = Member(steps.client, steps.group, "AAAAAAAAAAAAAAAAAAAAAQ")
    note("unknown member", stranger.beat(epoch=1).error_code)
    note("unknown member leaves", stranger.beat(epoch=-1).error_code)
    note("no subscription", stranger.beat(epoch=0).error_code)
    note("empty rack", stranger.beat(steps.topic, rack="").error_code)
    note("no member id", Member(steps.client, steps.group, " ").beat(steps.topic, epoch=0).error_code)
    note("leaves", member.beat(epoch=-1).error_code)
    note("empty", describe(steps.client, steps.group).group_state)


def states(steps: Steps) -> None:
    """What other brokers ask of the coordinator of share groups. There is no member."""
    key = SharePartitionId(GroupId(steps.group), TopicId(steps.topic_id), 0).coordinator_key
    request = FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key])
    steps.await_(lambda: steps.client.ask(request, FindCoordinatorResponse, 6).coordinators[0].error_code, 0)
    ours = ShareStates(steps.client, steps.group, steps.topic_id)
    # Kafka may still be creating its internal topic.
    steps.await_(lambda: ours.summary().error_code, ErrorCode.NONE)

    def note(step: str, answer: Any) -> None:
        fields = ("error_code", "state_epoch", "start_offset", "state_batches")
        told = [getattr(answer, each) for each in fields if hasattr(answer, each)]
        steps.note(step, [repr(each) for each in told] if answer.error_code == ErrorCode.NONE else answer.error_code)

    def look(step: str, leader_epoch: int = 0) -> None:
        note(f"{step}, all of it", ours.read(leader_epoch))
        note(f"{step}, in short", ours.summary(leader_epoch))

    note("no state", ours.read(0))
    note("no state, in short", ours.summary(0))
    note("a write without a state", ours.write(0, 0, 0))
    note("initialized without a start", ours.initialize(0, -1))
    look("without a start")
    note("a negative state epoch", ours.initialize(-3, 5))
    note("a start", ours.write(0, 0, 5))
    look("with a start")
    note("initialized again", ours.initialize(0, 7))
    look("initialized again")
    note("records", ours.write(0, 0, 7, [(7, 9, 2, 1), (10, 12, 0, 2), (15, 20, 4, 3)], 9))
    look("with records")
    steps.note("how many are done with", ours.summary().delivery_complete_count)
    note("a write that was overtaken", ours.write(0, 0, 9, [(10, 11, 4, 1)], 6))
    look("overtaken")
    note("no new start", ours.write(0, 0, -1, [(30, 31, 0, 1)]))
    look("no new start")
    note("a later start", ours.write(0, 0, 25, [(4, 6, 2, 1)]))
    look("a later start")
    look("a new leader", 6)
    steps.note("the epoch of a new leader", ours.summary(6).leader_epoch)
    note("an old leader writes", ours.write(0, 5, 26))
    note("an old leader reads", ours.read(5))
    note("a leader without an epoch writes", ours.write(0, -1, 26))
    note("a leader without an epoch reads", ours.read(-1))
    note("a newer state epoch", ours.initialize(3, 1))
    look("a newer state epoch", 6)
    note("an older state epoch", ours.initialize(2, 1))
    note("a write with an older state epoch", ours.write(2, 6, 2))
    strangers = {
        "unknown partition": ShareStates(steps.client, steps.group, steps.topic_id, 7),
        "negative partition": ShareStates(steps.client, steps.group, steps.topic_id, -7),
        "unknown topic": ShareStates(steps.client, steps.group, UUID(int=77)),
    }
    for what, stranger in strangers.items():
        note(f"{what} read", stranger.read(0))
        note(f"{what} in short", stranger.summary(0))
        note(f"{what} initialized", stranger.initialize(0, 0))
        note(f"{what} written", stranger.write(0, 0, 0))
        note(f"{what} deleted", stranger.delete())
    note("deleted", ours.delete())
    note("deleted again", ours.delete())
    note("after a deletion", ours.read(6))
    note("after a deletion, in short", ours.summary(6))
    note("a new state", ours.initialize(0, 4))
    look("a new state")


SCRIPTS: dict[str, Callable[[Steps], None]] = {
    each.__name__: each
    for each in (acknowledgements, two_members, limits, sessions, administration, heartbeats, states)
}
# What the groups of some scripts set.
SETTINGS = {"limits": {"share_delivery_count_limit": "2"}}


def outcomes(broker: Reachable, script: str) -> dict[str, Any]:
    """What each step of the script was answered."""
    with Steps(broker, **SETTINGS.get(script, {})) as steps:
        SCRIPTS[script](steps)
        return steps.told
