"""The records of groups are those of Kafka: what we write its own classes read, and what they write we read."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headwater.broker.groups.log import GroupFormat
from headwater.coordination.groups.classic.events import (
    ClassicGroupForgotten,
    GenerationStored,
    StoredMember,
    SupportedProtocol,
)
from headwater.coordination.groups.consumer.events import (
    ClassicDetails,
    ConsumerGroupForgotten,
    ConsumerGroupStored,
    CurrentForgotten,
    CurrentStored,
    MemberForgotten,
    MemberState,
    MemberStored,
    RegexForgotten,
    RegexResolved,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
)
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.coordination.groups.share.events import (
    ShareCurrentForgotten,
    ShareCurrentStored,
    ShareGroupForgotten,
    ShareGroupStored,
    ShareMemberForgotten,
    ShareMemberStored,
    ShareTargetEpochForgotten,
    ShareTargetEpochStored,
    ShareTargetForgotten,
    ShareTargetStored,
)
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, TopicId, TopicName
from headwater.protocol.batches.batch import build
from headwater.protocol.batches.records import Record
from headwater.protocol.consumer_protocol import Subscription, write_assignment, write_subscription
from tests.interop.dump_log import DumpLog
from tests.interop.stored_records import Printed, printed, rewritten

pytestmark = pytest.mark.interop

INTERNAL = "__consumer_offsets"
FORMAT = GroupFormat()
GROUP, MEMBER = GroupId("grüppe"), MemberId("member-1")
TOPIC, OTHER = TopicName("topic"), TopicName("other")
TOPIC_ID, OTHER_ID = TopicId(UUID(int=2**127 + 5)), TopicId(UUID(int=7))
SUBSCRIPTION, ASSIGNMENT = write_subscription(Subscription([TOPIC]), 0), write_assignment({TOPIC: [1, 4]}, 0)

MEMBERS = [
    StoredMember(MEMBER, None, "client", "/10.0.0.1", 50_000, 10_000, SUBSCRIPTION, ASSIGNMENT),
    StoredMember(MemberId("m2"), "instance", "", "", 50_001, 10_001, SUBSCRIPTION, ASSIGNMENT),
]
GENERATION = GenerationStored(GROUP, "consumer", 12, "range", MEMBER, 1_700_000_000_000, MEMBERS)
COMMITTED = OffsetCommitted(GROUP, TOPIC, 3, CommittedOffset(2**40, 6, "note", 1_700_000_000_000, -1, TOPIC_ID))
STATED = MemberStored(
    GROUP, MEMBER, "instance", "rack", "client", "/host", frozenset({TOPIC, OTHER}), "t.*", 5_000, "uniform"
)
CLASSIC = MemberStored(
    GROUP,
    MEMBER,
    None,
    None,
    "client",
    "/host",
    frozenset(),
    None,
    -1,
    None,
    ClassicDetails(45_000, (SupportedProtocol("range", b"\x00\xff"), SupportedProtocol("sticky", b""))),
)
CURRENT = CurrentStored(
    GROUP,
    MEMBER,
    9,
    8,
    MemberState.UNREVOKED_PARTITIONS,
    {TOPIC_ID: frozenset({0, 5}), OTHER_ID: frozenset({1})},
    {OTHER_ID: frozenset({200})},
)


def kafka_uuid(topic_id: TopicId) -> str:
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def in_json(protocols: Sequence[SupportedProtocol]) -> list[dict[str, str]]:
    return [{"name": each.name, "metadata": b64encode(each.metadata).decode()} for each in protocols]


def classic_member(member: StoredMember) -> dict[str, Any]:
    """The tool knows what is in the bytes of consumers."""
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "rebalanceTimeout": member.rebalance_timeout_ms,
        "sessionTimeout": member.session_timeout_ms,
        "subscription": {"topics": [TOPIC], "userData": None},
        "assignment": {"assignedPartitions": [{"topic": TOPIC, "partitions": [1, 4]}], "userData": None},
    }


OFFSET_KEY = ("1", {"group": GROUP, "topic": TOPIC, "partition": 3})
GROUP_KEY = {"groupId": GROUP}
MEMBER_KEY = {"groupId": GROUP, "memberId": MEMBER}

# Every event, and what Kafka finds in its record: the type and the fields of the key, version and fields of the value.
RECORDS: Sequence[tuple[Event, Printed]] = [
    (
        COMMITTED,
        (
            OFFSET_KEY,
            (
                "4",
                {
                    "offset": 2**40,
                    "leaderEpoch": 6,
                    "metadata": "note",
                    "commitTimestamp": 1_700_000_000_000,
                    "topicId": kafka_uuid(TOPIC_ID),
                },
            ),
        ),
    ),
    (
        OffsetCommitted(GROUP, TOPIC, 3, CommittedOffset(0, -1, "x" * 300, 5)),
        (OFFSET_KEY, ("4", {"offset": 0, "leaderEpoch": -1, "metadata": "x" * 300, "commitTimestamp": 5})),
    ),
    (
        OffsetCommitted(GROUP, TOPIC, 3, CommittedOffset(8, -1, "", 5, 6)),
        (OFFSET_KEY, ("1", {"offset": 8, "metadata": "", "commitTimestamp": 5, "expireTimestamp": 6})),
    ),
    (OffsetForgotten(GROUP, TOPIC, 3), (OFFSET_KEY, None)),
    (
        GENERATION,
        (
            ("2", {"group": GROUP}),
            (
                "3",
                {
                    "protocolType": "consumer",
                    "generation": 12,
                    "protocol": "range",
                    "leader": MEMBER,
                    "currentStateTimestamp": 1_700_000_000_000,
                    "members": [classic_member(member) for member in MEMBERS],
                },
            ),
        ),
    ),
    (
        GenerationStored(GROUP, "", 0, None, None, 5, []),
        (
            ("2", {"group": GROUP}),
            (
                "3",
                {
                    "protocolType": "",
                    "generation": 0,
                    "protocol": None,
                    "leader": None,
                    "currentStateTimestamp": 5,
                    "members": [],
                },
            ),
        ),
    ),
    (ClassicGroupForgotten(GROUP), (("2", {"group": GROUP}), None)),
    (
        ConsumerGroupStored(GROUP, 10, -(2**60)),
        (("3", GROUP_KEY), ("0", {"epoch": 10, "metadataHash": -(2**60)})),
    ),
    (ConsumerGroupForgotten(GROUP), (("3", GROUP_KEY), None)),
    (
        STATED,
        (
            ("5", MEMBER_KEY),
            (
                "0",
                {
                    "instanceId": "instance",
                    "rackId": "rack",
                    "clientId": "client",
                    "clientHost": "/host",
                    "subscribedTopicNames": [OTHER, TOPIC],
                    "subscribedTopicRegex": "t.*",
                    "rebalanceTimeoutMs": 5_000,
                    "serverAssignor": "uniform",
                },
            ),
        ),
    ),
    (
        CLASSIC,
        (
            ("5", MEMBER_KEY),
            (
                "0",
                {
                    "instanceId": None,
                    "rackId": None,
                    "clientId": "client",
                    "clientHost": "/host",
                    "subscribedTopicNames": [],
                    "subscribedTopicRegex": None,
                    "rebalanceTimeoutMs": -1,
                    "serverAssignor": None,
                    "classicMemberMetadata": {
                        "sessionTimeoutMs": 45_000,
                        "supportedProtocols": in_json(CLASSIC.classic.protocols if CLASSIC.classic else ()),
                    },
                },
            ),
        ),
    ),
    (MemberForgotten(GROUP, MEMBER), (("5", MEMBER_KEY), None)),
    (
        TargetEpochStored(GROUP, 10, 1_700_000_000_000),
        (("6", GROUP_KEY), ("0", {"assignmentEpoch": 10, "assignmentTimestamp": 1_700_000_000_000})),
    ),
    (TargetEpochForgotten(GROUP), (("6", GROUP_KEY), None)),
    (
        TargetStored(GROUP, MEMBER, {TOPIC_ID: frozenset({2, 0})}),
        (
            ("7", MEMBER_KEY),
            ("0", {"topicPartitions": [{"topicId": kafka_uuid(TOPIC_ID), "partitions": [0, 2]}]}),
        ),
    ),
    (TargetForgotten(GROUP, MEMBER), (("7", MEMBER_KEY), None)),
    (
        CURRENT,
        (
            ("8", MEMBER_KEY),
            (
                "0",
                {
                    "memberEpoch": 9,
                    "previousMemberEpoch": 8,
                    "state": 2,
                    "assignedPartitions": [
                        {"topicId": kafka_uuid(TOPIC_ID), "partitions": [0, 5]},
                        {"topicId": kafka_uuid(OTHER_ID), "partitions": [1]},
                    ],
                    "partitionsPendingRevocation": [{"topicId": kafka_uuid(OTHER_ID), "partitions": [200]}],
                },
            ),
        ),
    ),
    (CurrentForgotten(GROUP, MEMBER), (("8", MEMBER_KEY), None)),
    (
        RegexResolved(GROUP, "t.*", frozenset({TOPIC, OTHER}), 3, 1_700_000_000_000),
        (
            ("16", {"groupId": GROUP, "regularExpression": "t.*"}),
            ("0", {"topics": [OTHER, TOPIC], "version": 3, "timestamp": 1_700_000_000_000}),
        ),
    ),
    (RegexForgotten(GROUP, "t.*"), (("16", {"groupId": GROUP, "regularExpression": "t.*"}), None)),
    (
        ShareMemberStored(GROUP, MEMBER, "rack", "client", "/10.0.0.1", frozenset({TOPIC, OTHER})),
        (
            ("10", MEMBER_KEY),
            (
                "0",
                {
                    "rackId": "rack",
                    "clientId": "client",
                    "clientHost": "/10.0.0.1",
                    "subscribedTopicNames": [OTHER, TOPIC],
                },
            ),
        ),
    ),
    (ShareMemberForgotten(GROUP, MEMBER), (("10", MEMBER_KEY), None)),
    (ShareGroupStored(GROUP, 7, -5), (("11", GROUP_KEY), ("0", {"epoch": 7, "metadataHash": -5}))),
    (ShareGroupForgotten(GROUP), (("11", GROUP_KEY), None)),
    (
        ShareTargetEpochStored(GROUP, 10, 1_700_000_000_000),
        (("12", GROUP_KEY), ("0", {"assignmentEpoch": 10, "assignmentTimestamp": 1_700_000_000_000})),
    ),
    (ShareTargetEpochForgotten(GROUP), (("12", GROUP_KEY), None)),
    (
        ShareTargetStored(GROUP, MEMBER, {TOPIC_ID: frozenset({2, 0})}),
        (
            ("13", MEMBER_KEY),
            ("0", {"topicPartitions": [{"topicId": kafka_uuid(TOPIC_ID), "partitions": [0, 2]}]}),
        ),
    ),
    (ShareTargetForgotten(GROUP, MEMBER), (("13", MEMBER_KEY), None)),
    (
        ShareCurrentStored(GROUP, MEMBER, 9, 8, {TOPIC_ID: frozenset({0, 5})}),
        (
            ("14", MEMBER_KEY),
            (
                "0",
                {
                    "memberEpoch": 9,
                    "previousMemberEpoch": 8,
                    "state": 1,
                    "assignedPartitions": [{"topicId": kafka_uuid(TOPIC_ID), "partitions": [0, 5]}],
                },
            ),
        ),
    ),
    (ShareCurrentForgotten(GROUP, MEMBER), (("14", MEMBER_KEY), None)),
]
EVENTS = [event for event, _ in RECORDS]


def test_every_event_is_tried() -> None:
    """But for those of transactions, which are told by the batch that they come in."""
    of_transactions = {TransactionalOffsetCommitted, TransactionEnded}
    assert {type(event) for event in EVENTS} == set(Event.__args__) - of_transactions


def test_the_dump_of_kafka_shows_what_was_written(dump_log: DumpLog, tmp_path: Path) -> None:
    records = [Record(offset, 5, *FORMAT.encode(event)) for offset, event in enumerate(EVENTS)]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build(records))

    dump = dump_log([segment], "--offsets-decoder")

    assert not dump.complaints
    assert printed(dump) == [expected for _, expected in RECORDS]


def test_kafka_would_write_the_same_bytes() -> None:
    ours = [FORMAT.encode(event) for event in EVENTS]

    for (our_key, our_value), (key, values) in zip(ours, rewritten(INTERNAL, ours), strict=True):
        assert key == our_key
        assert our_value in values if our_value is not None else not values


def test_records_of_kafka_in_older_versions_are_read() -> None:
    ours = [FORMAT.encode(COMMITTED), FORMAT.encode(GENERATION)]

    (offset_key, offsets), (group_key, generations) = rewritten(INTERNAL, ours)

    assert len(offsets) == len(generations) == 5
    for version, value in enumerate(offsets):
        committed = COMMITTED.committed._replace(
            leader_epoch=6 if version >= 3 else -1, topic_id=TOPIC_ID if version >= 4 else NO_TOPIC_ID
        )
        assert FORMAT.decode(offset_key, value) == COMMITTED._replace(committed=committed)
    for version, value in enumerate(generations):
        members = [
            member._replace(
                instance_id=member.instance_id if version >= 3 else None,
                rebalance_timeout_ms=member.rebalance_timeout_ms if version >= 1 else member.session_timeout_ms,
            )
            for member in MEMBERS
        ]
        timestamp_ms = GENERATION.state_timestamp_ms if version >= 2 else -1
        expected = GENERATION._replace(members=members, state_timestamp_ms=timestamp_ms)
        assert FORMAT.decode(group_key, value) == expected
