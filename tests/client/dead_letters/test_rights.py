"""What listing, putting back and purging dead letters take, at a broker that enforces rules."""

from collections.abc import Iterator

import pytest

from headwater.client.access import AccessAdmin
from headwater.client.cluster import Cluster
from headwater.client.dead_letters.dead_letters import DeadLetters
from headwater.client.errors import Refused
from headwater.client.security.security import read_security
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.testing import Broker, BrokerSecurity
from tests.support.client.dead_letters import bury, contents, letter_topic, origin, totals

TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    users = {"admin": "secret of admin", "ben": "secret of ben"}
    with Broker(security=BrokerSecurity("SASL_PLAINTEXT", users=users, authorizer=True)) as running:
        yield running


def connect(broker: Broker, user: str) -> Cluster:
    return Cluster(broker.bootstrap_servers, security=read_security(broker.client_settings(user)), topic_wait_ms=0)


@pytest.fixture
def admin(broker: Broker) -> Iterator[Cluster]:
    with connect(broker, "admin") as cluster:
        yield cluster
        AccessAdmin(cluster).delete_acls([AclFilter(principal="User:ben")])


@pytest.fixture
def ben(broker: Broker) -> Iterator[Cluster]:
    with connect(broker, "ben") as cluster:
        yield cluster


def allow(admin: Cluster, kind: ResourceType, name: str, *operations: Operation) -> None:
    AccessAdmin(admin).create_acls(
        [Acl(kind, name, PatternType.LITERAL, "User:ben", "*", each, Permission.ALLOW) for each in operations]
    )


def test_each_command_needs_what_its_requests_need(admin: Cluster, ben: Cluster) -> None:
    topic, dlq = letter_topic(admin)
    bury(admin, dlq, [origin(topic, 0)])
    letters = DeadLetters(ben, dlq)
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        letters.letters()

    allow(admin, TOPIC, dlq, Operation.READ)
    (letter,) = DeadLetters(ben, dlq).letters()
    assert letter.is_redriven is None, "the journal may not be read"
    with pytest.raises(Refused, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        list(DeadLetters(ben, dlq).redrive())

    allow(admin, TRANSACTIONAL_ID, f"headwater-redrive:{dlq}", Operation.WRITE)
    allow(admin, TOPIC, f"{dlq}.redriven", Operation.READ, Operation.WRITE, Operation.CREATE)
    with pytest.raises(Refused, match=f"topic '{topic}'.*TOPIC_AUTHORIZATION_FAILED"):
        list(DeadLetters(ben, dlq).redrive())
    assert contents(admin, topic) == []

    allow(admin, TOPIC, topic, Operation.WRITE)
    assert totals(list(DeadLetters(ben, dlq).redrive())) == (1, 0, 0)
    assert len(contents(admin, topic)) == 1
    (letter,) = DeadLetters(ben, dlq).letters()
    assert letter.is_redriven is True


def test_only_what_is_known_to_be_dead_letters_is_purged(admin: Cluster, ben: Cluster) -> None:
    topic, dlq = letter_topic(admin)
    bury(admin, dlq, [origin(topic, 0)])
    allow(admin, TOPIC, dlq, Operation.READ, Operation.DELETE)
    with pytest.raises(Refused, match=r"the settings of topic .*TOPIC_AUTHORIZATION_FAILED"):
        DeadLetters(ben, dlq).purgeable()
    allow(admin, TOPIC, dlq, Operation.DESCRIBE_CONFIGS)
    letters = DeadLetters(ben, dlq)
    letters.purge(letters.purgeable())
    assert contents(admin, dlq) == []
