"""Apache Kafka and Headwater answer alike whatever an administrator asks: each API in each version, valid, at the edges
of what its fields can hold, and wrong."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from headwater.protocol.consumer_protocol import Subscription, write_subscription
from headwater.protocol.wire.codec import Request
from tests.interop.differential.brokers import (
    Peer,
    ask,
    ask_values,
    connected,
    requests_by_name,
    settle,
    wait_for_topics,
)
from tests.interop.differential.built import built
from tests.interop.differential.comparison import Meant, Plain, differences, plain
from tests.interop.differential.edges import edges
from tests.interop.differential.meant import NOT_COMPARED, REQUESTS
from tests.interop.differential.subjects import MEMBER_ID, RECORDS, SUBJECTS, TOPICS, Subject, World
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import NOW_MS, RawClient, batch_of

pytestmark = pytest.mark.interop

CLOSED, NO_ANSWER = "(closes the connection)", "(does not answer)"


class Side:
    """One of the two brokers: a client of it that is connected again when the broker has closed the connection."""

    def __init__(self, peer: Peer, stack: ExitStack) -> None:
        self.peer = peer
        self._stack = stack
        self._client = self._connect()
        prepared = self._stack.enter_context(connected(peer.open_listener))
        self.world = prepare(prepared)
        self._topic_names = {topic_id: name for name, topic_id in self.world.topic_ids.items()}

    def answer(self, request: Request, version: int) -> Plain:
        try:
            return plain(ask(self._client, request, version), version, self._topic_names)
        except (ConnectionError, TimeoutError) as error:
            self._client.socket.close()
            self._client = self._connect()
            return NO_ANSWER if isinstance(error, TimeoutError) else CLOSED

    def _connect(self) -> RawClient:
        return self._stack.enter_context(connected(self.peer.open_listener))


def prepare(client: RawClient) -> World:
    new = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in TOPICS.items()]
    created = ask_values(client, "CreateTopics", 7, topics=new, timeout_ms=60_000)
    assert {topic.error_code for topic in created.topics} == {0}
    wait_for_topics(client, list(TOPICS))
    records = batch_of(*[b"value"] * RECORDS, timestamp=NOW_MS)
    wait_until(lambda: client.produce("orders", records).error_code == 0, "nothing can be written")
    wait_until(lambda: client.produce("payments", batch_of(b"value")).error_code == 0, "nothing can be written")
    for key_type, key in ((0, "readers"), (1, "ledger")):
        find = {"key_type": key_type, "coordinator_keys": [key]}
        wait_until(
            lambda find=find: ask_values(client, "FindCoordinator", 6, **find).coordinators[0].error_code == 0,
            "there is no coordinator",
        )
    partitions = [{"partition_index": index, "committed_offset": 1} for index in (0, 1)]
    offsets = {"group_id": "readers", "topics": [{"name": "orders", "partitions": partitions}]}

    def is_committed() -> bool:
        return ask_values(client, "OffsetCommit", 9, **offsets).topics[0].partitions[0].error_code == 0

    wait_until(is_committed, "no offset can be committed")

    def is_begun() -> bool:
        begun = ask_values(client, "InitProducerId", 5, transactional_id="ledger", transaction_timeout_ms=60_000)
        return begun.error_code == 0

    wait_until(is_begun, "no producer id can be had")
    return World(client, {topic.name: topic.topic_id for topic in created.topics}, _join(client), _join_modern(client))


def _join_modern(client: RawClient) -> int:
    """The epoch of the member, once it has its partitions: Kafka's coordinator may learn late of the topic."""
    member = {"group_id": "modern", "member_id": MEMBER_ID}
    subscribed = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    answers = [ask_values(client, "ConsumerGroupHeartbeat", 1, **member, **subscribed, member_epoch=0)]

    def is_assigned() -> bool:
        epoch = answers[-1].member_epoch
        answers.append(ask_values(client, "ConsumerGroupHeartbeat", 1, **member, member_epoch=epoch))
        (described,) = ask_values(client, "ConsumerGroupDescribe", 1, group_ids=["modern"]).groups
        return any(each.assignment.topic_partitions for each in described.members)

    wait_until(is_assigned, "the member gets no partitions")
    assert {answer.error_code for answer in answers} == {0}
    return answers[-1].member_epoch


def _join(client: RawClient) -> str:
    join = {
        "group_id": "members",
        "session_timeout_ms": 300_000,
        "rebalance_timeout_ms": 300_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": write_subscription(Subscription([]))}],
    }
    member_id = ask_values(client, "JoinGroup", 9, **join).member_id
    joined = ask_values(client, "JoinGroup", 9, **join, member_id=member_id)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    member = {"group_id": "members", "generation_id": 1, "member_id": member_id}
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    assert ask_values(client, "SyncGroup", 5, **member, **protocol).error_code == 0
    return member_id


@pytest.fixture(scope="module")
def sides(kafka: Peer, headwater: Peer) -> Iterator[Sequence[Side]]:
    with ExitStack() as stack:
        yield [Side(kafka, stack), Side(headwater, stack)]


class Case(NamedTuple):
    """Which request of an API: one that is valid, or one with a changed field."""

    name: str
    requests: Sequence[Request]


def cases(subject: Subject, version: int, worlds: Sequence[World], numbers: Iterator[int]) -> Iterator[Case]:
    """The same request for each of the worlds."""
    request = requests_by_name()[subject.api]

    def made() -> list[Mapping[str, object]]:
        number = next(numbers)
        return [subject.values(world._replace(case=number)) for world in worlds]

    yield Case("valid", [built(request, values) for values in made()])
    if subject.is_costly and version not in (subject.versions[0], subject.versions[-1]):
        return
    for name in (edge.name for edge in edges(request, version, made()[0], subject.skipped)):
        if name not in subject.unanswered:
            # Where a broker has given out just the value of the edge, as an id or epoch, nothing changes.
            changed = [
                {edge.name: edge.values for edge in edges(request, version, values, subject.skipped)}.get(name, values)
                for values in made()
            ]
            yield Case(name, [built(request, values) for values in changed])


def test_every_api_is_compared() -> None:
    compared = {subject.api for subjects in SUBJECTS.values() for subject in subjects}
    assert compared == requests_by_name().keys() - NOT_COMPARED.keys()


@pytest.mark.parametrize("area", SUBJECTS)
def test_kafka_and_headwater_answer_alike(sides: Sequence[Side], area: str) -> None:
    numbers = iter(range(first_number(area), 1 << 31))
    unmeant: list[str] = []
    met: set[Meant] = set()
    count = 0
    for subject in SUBJECTS[area]:
        for version in subject.versions:
            for case in cases(subject, version, [side.world for side in sides], numbers):
                count += 1
                theirs, ours = (
                    side.answer(request, version) for side, request in zip(sides, case.requests, strict=True)
                )
                title = f"{subject.api} v{version} {case.name}"
                for difference in differences(theirs, ours):
                    found = [each for each in REQUESTS if each.covers(subject.api, title, difference)]
                    met.update(found)
                    if not found:
                        unmeant.append(f"{title}\n    {difference}")
        if subject.changes_metadata:
            last = f"settled-{next(numbers)}"
            for side in sides:
                settle(side.peer, last)
    assert not unmeant, "\n".join([f"{len(unmeant)} differences in {count} cases", *unmeant])
    apis = {subject.api for subject in SUBJECTS[area]}
    listed = [meant for meant in REQUESTS if meant.api in apis and meant.is_constant]
    assert [meant for meant in listed if meant not in met] == [], "listed, but no longer there"


def first_number(area: str) -> int:
    """So that names of different areas differ."""
    return 1_000_000 * (1 + list(SUBJECTS).index(area))
