"""Apache Kafka with its StandardAuthorizer and Headwater answer alike, whatever a client may do.

Every client of `acl_clients` sends every request of `acl_requests` to both, as the user that it has authenticated as.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from headwater.coordination.catalog.topic_names import SHARE_STATE_TOPIC
from headwater.coordination.shares.terms import SharePartitionId
from headwater.ids import GroupId, TopicId
from tests.interop.differential.acl_clients import CLIENTS, GROUPS, TOPICS, Own, acls
from tests.interop.differential.acl_requests import Asked, requests
from tests.interop.differential.brokers import (
    Peer,
    ask,
    ask_values,
    create_acls,
    create_users,
    requests_by_name,
    settle,
    wait_for_topics,
)
from tests.interop.differential.built import built
from tests.interop.differential.comparison import Meant, Plain, differences, plain
from tests.interop.differential.meant import ACLS
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import RawClient, batch_of

pytestmark = pytest.mark.interop

CASES_MIN = 150
# The kind of coordinator that share groups have.
SHARE_KEY = 2
# What everybody may ask, and what comes before there is a user.
OPEN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}


class Case(NamedTuple):
    client: str
    asked: Asked

    def __str__(self) -> str:
        return f"{self.client}: {self.asked.title}"


def prepare(broker: Peer) -> Mapping[str, Own]:
    """Create what each client has, and its rules."""
    create_users(broker, CLIENTS)
    names = [f"{client}.{topic}" for client in CLIENTS for topic in TOPICS]
    new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    with broker.administrator() as client:
        created = ask_values(client, "CreateTopics", 7, topics=new, timeout_ms=60_000)
        assert {topic.error_code for topic in created.topics} == {0}
        topic_ids: dict[str, UUID] = {topic.name: topic.topic_id for topic in created.topics}
        wait_for_topics(client, names)
        # Kafka creates the topic of share groups when it is first asked for, and late: answers would depend on that.
        partition = SharePartitionId(GroupId("share"), TopicId(topic_ids[names[0]]), 0)
        find_coordinator(client, partition.coordinator_key, SHARE_KEY)
        wait_for_topics(client, [SHARE_STATE_TOPIC])
        owns = {name: _prepare_client(client, Own(name, topic_ids)) for name in CLIENTS}
    # Last: from then on each decision is made by them.
    create_acls(broker, [acl for name, rules in CLIENTS.items() for acl in acls(name, rules)])
    return owns


def _prepare_client(client: RawClient, own: Own) -> Own:
    # Kafka's broker tells who leads a partition before it does so itself.
    orders = own.named("orders")
    wait_until(lambda: client.produce(orders, batch_of(b"value")).error_code == 0, "nothing can be written")
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    topics = [{"name": own.named("orders"), "partitions": partitions}]
    for group in GROUPS:

        def is_committed(group: str = group) -> bool:
            committed = ask_values(client, "OffsetCommit", 9, group_id=own.named(group), topics=topics)
            return committed.topics[0].partitions[0].error_code == 0

        find_coordinator(client, own.named(group), 0)
        wait_until(is_committed, "no offset can be committed")
    find_coordinator(client, own.named("ledger"), 1)
    begun: list[Any] = []

    def is_begun() -> bool:
        named = {"transactional_id": own.named("ledger"), "transaction_timeout_ms": 60_000}
        begun.append(ask_values(client, "InitProducerId", 5, **named))
        return begun[-1].error_code == 0

    wait_until(is_begun, "no producer id can be had")
    return own._replace(producer=(begun[-1].producer_id, begun[-1].producer_epoch))


def find_coordinator(client: RawClient, key: str, key_type: int) -> None:
    def is_found() -> bool:
        found = ask_values(client, "FindCoordinator", 6, key_type=key_type, coordinator_keys=[key])
        return found.coordinators[0].error_code == 0

    wait_until(is_found, f"no coordinator of {key}")


def answers(broker: Peer, owns: Mapping[str, Own]) -> Iterator[tuple[Case, Plain]]:
    topic_names = {topic_id: name for name, topic_id in next(iter(owns.values())).topic_ids.items()}
    for name, own in owns.items():
        with broker.user(name) as client:
            for asked in requests(own):
                request = built(requests_by_name()[asked.api], asked.values)
                try:
                    answer = plain(ask(client, request, asked.version), asked.version, topic_names)
                except ConnectionError as error:
                    raise AssertionError(f"{broker.name}, {name}: {asked.title}") from error
                yield Case(name, asked), answer
        settle(broker, f"settled.{name}")


def test_kafka_and_headwater_answer_alike(kafka: Peer, headwater: Peer) -> None:
    both = [answers(broker, prepare(broker)) for broker in (kafka, headwater)]
    cases = 0
    apis: set[str] = set()
    unmeant: list[str] = []
    met: set[Meant] = set()
    for (case, theirs), (same, ours) in zip(*both, strict=True):
        assert (case.client, case.asked.title) == (same.client, same.asked.title)
        cases += 1
        for difference in differences(theirs, ours):
            found = [each for each in ACLS if each.covers(case.asked.api, str(case), difference)]
            met.update(found)
            if not found:
                unmeant.append(f"{case}\n    {difference}")
        apis.add(case.asked.api)
    assert cases >= CASES_MIN
    assert apis == requests_by_name().keys() - OPEN
    assert not unmeant, "\n".join([f"{len(unmeant)} differences in {cases} cases", *unmeant])
    assert [meant for meant in ACLS if meant.is_constant and meant not in met] == [], "listed, but no longer there"
