"""`Broker(security=...)` and its fixture: one line gives a secured broker and what each client needs to connect."""

import asyncio
import warnings

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.client import AccessAdmin, Cluster, Refused, read_security
from headwater.errors import ConfigError
from headwater.testing import Broker, BrokerSecurity

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

TIMEOUT_S = 20
USERS = {"ann": "secret of ann", "ben": "secret of ben"}
KINDS = [
    BrokerSecurity("SSL"),
    BrokerSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    BrokerSecurity("SASL_SSL"),
    BrokerSecurity("SASL_SSL", "PLAIN", client_certificates=True),
    BrokerSecurity("SSL", client_certificates=True, authorizer=True),
]


@pytest.mark.parametrize("security", KINDS, ids=lambda kind: f"{kind.protocol}-{kind.client_certificates}")
def test_every_client_connects_with_the_settings_that_the_broker_gives(security: BrokerSecurity) -> None:
    with Broker(security=security) as broker:
        offset = send_with_kafka_python(broker)
        offset += asyncio.run(send_with_aiokafka(broker))
        assert offset == 0 + 1
        assert "sent" in AdminClient(broker.client_settings()).list_topics(timeout=TIMEOUT_S).topics
        settings = broker.client_settings()
        with Cluster(settings["bootstrap.servers"], security=read_security(settings)) as cluster:
            assert "sent" in [topic.name for topic in cluster.topics()]


def send_with_kafka_python(broker: Broker) -> int:
    producer = KafkaProducer(**broker.kafka_python_settings())
    try:
        return producer.send("sent", b"1", partition=0).get(TIMEOUT_S).offset
    finally:
        producer.close()


async def send_with_aiokafka(broker: Broker) -> int:
    producer = AIOKafkaProducer(**broker.aiokafka_settings())
    await producer.start()
    try:
        return (await producer.send_and_wait("sent", b"2", partition=0)).offset
    finally:
        await producer.stop()


def test_a_client_without_the_settings_is_not_let_in(headwater_secured_broker: Broker) -> None:
    servers = headwater_secured_broker.bootstrap_servers
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": servers}).list_topics(timeout=1)


@pytest.mark.parametrize("client_certificates", [False, True])
def test_the_first_user_may_do_everything_and_another_nothing(client_certificates: bool) -> None:
    protocol = "SSL" if client_certificates else "SASL_PLAINTEXT"
    security = BrokerSecurity(protocol, users=USERS, client_certificates=client_certificates, authorizer=True)
    with Broker(security=security) as broker:
        for user in USERS:
            settings = read_security(broker.client_settings(user))
            with Cluster(broker.bootstrap_servers, security=settings) as cluster:
                if user == "ann":
                    assert {acl.principal for acl in AccessAdmin(cluster).describe_acls()} == {"User:ann"}
                else:
                    with pytest.raises(Refused, match="User:ben may not describe"):
                        AccessAdmin(cluster).describe_acls()


def test_a_broker_without_security_gives_its_address_alone() -> None:
    with Broker() as broker:
        assert broker.client_settings() == {"bootstrap.servers": broker.bootstrap_servers}
        assert broker.aiokafka_settings() == broker.kafka_python_settings()


@pytest.mark.parametrize(
    ("security", "complaint"),
    [
        ("TLS", "security is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'"),
        (BrokerSecurity(mechanism="GSSAPI"), "the mechanism is one of .*, not 'GSSAPI'"),
        (BrokerSecurity(users={}), "no users"),
        (BrokerSecurity("SASL_PLAINTEXT", client_certificates=True), "where there is TLS, not with SASL_PLAINTEXT"),
    ],
)
def test_what_cannot_be_is_refused(security: BrokerSecurity | str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Broker(security=security)


def test_a_user_that_is_not_there_has_no_settings(headwater_secured_broker: Broker) -> None:
    with pytest.raises(ConfigError, match=r"no user 'nobody' \(BrokerSecurity.users\)"):
        headwater_secured_broker.client_settings("nobody")


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(BrokerSecurity(users=USERS))
