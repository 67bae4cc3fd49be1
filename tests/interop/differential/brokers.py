"""Apache Kafka and Headwater side by side, set up alike, with every request that a test thinks of sent to both."""

import secrets
import socket
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import apache_kafka
from benchmarks.ports import port_of, reserved_port

from headwater.listeners.kafka.api_table import APIS
from headwater.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from headwater.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from headwater.protocol.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.protocol.wire.codec import Request, Response
from headwater.security import scram
from headwater.security.acl import Acl
from headwater.security.scram import ScramClient
from tests.interop.differential.built import built
from tests.support.broker.processes import BrokerProcess, wait_until
from tests.support.kafka.raw_client import RawClient

MECHANISM = "SCRAM-SHA-256"
_MECHANISM_NUMBER = 1
_DIGEST = "sha256"
PASSWORD = "tea & milk"
_SALT = bytes(range(16))
_ITERATIONS = 4096
# Filters of ACLs that select everything.
_ANY = 1

# What both are told. Where their defaults differ, this makes them the same.
SETTINGS: Mapping[str, str] = {
    "node.id": "1",
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "sasl.enabled.mechanisms": MECHANISM,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a key for tests",
    # Members that send no heartbeats stay for as long as the tests.
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
    # Records of these tests are years old. Retention would delete them half a minute after the start.
    "log.initial.task.delay.ms": "86400000",
}
_KAFKA_ALONE: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    # Fewer threads and less memory than on a machine of its own.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
_HEADWATER_ALONE: Mapping[str, str] = {"authorizer.class.name": "acl"}


class Address(NamedTuple):
    bootstrap_servers: str


class Peer(NamedTuple):
    """One of the two brokers. A client of `open_listener` is User:ANONYMOUS, a super user."""

    name: str
    open_listener: Address
    sasl_listener: Address

    def administrator(self) -> RawClient:
        return connected(self.open_listener)

    def user(self, name: str) -> RawClient:
        client = connected(self.sasl_listener)
        try:
            authenticate(client, name)
        except BaseException:
            client.socket.close()
            raise
        return client


def connected(address: Address) -> RawClient:
    client = RawClient(address)
    # A request and its answer are one segment each; Nagle's algorithm would only delay them.
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


@cache
def response_of(api_key: int) -> type[Response]:
    (found,) = (each for each in Response.__subclasses__() if each.api_key == api_key)
    return found


@cache
def requests_by_name() -> Mapping[str, type[Request]]:
    """The request of each API that Headwater serves and Kafka has, too."""
    return {api.name: api.load()[0] for api in APIS if api.key < KEYS_OF_HEADWATER}


# The APIs of Headwater's own have keys from here on.
KEYS_OF_HEADWATER = 10_000


def ask(client: RawClient, request: Request, version: int) -> Response:
    return client.ask(request, response_of(request.api_key), version)


def ask_values(client: RawClient, api: str, version: int, **values: Any) -> Any:
    return ask(client, built(requests_by_name()[api], values), version)


@contextmanager
def running_kafka(java: Sequence[str], directory: Path) -> Generator[Peer]:
    with ExitStack() as stack:
        ports = {
            protocol: port_of(stack.enter_context(reserved_port())) for protocol in ("PLAINTEXT", "SASL_PLAINTEXT")
        }
        started = apache_kafka.start(
            java,
            directory,
            ports=ports,
            controller_port=port_of(stack.enter_context(reserved_port())),
            settings={**SETTINGS, **_KAFKA_ALONE},
        )
        # Killed, because a clean stop takes seconds and nothing is read afterwards.
        stack.callback(started.kill)
        plain, sasl = (Address(f"127.0.0.1:{port}") for port in ports.values())
        yield Peer("Kafka", plain, sasl)


@contextmanager
def running_headwater(directory: Path) -> Generator[Peer]:
    with ExitStack() as stack:
        sasl_port = port_of(stack.enter_context(reserved_port()))
        settings = {**SETTINGS, **_HEADWATER_ALONE}
        broker = stack.enter_context(BrokerProcess(directory / "data", settings, {"SASL_PLAINTEXT": sasl_port}))
        yield Peer("Headwater", Address(broker.bootstrap_servers), Address(f"127.0.0.1:{sasl_port}"))


def authenticate(client: RawClient, user: str) -> None:
    """The exchange of SCRAM."""

    def exchange(message: bytes) -> bytes:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, 2)
        assert answer.error_code == 0, answer.error_message
        return bytes(answer.auth_bytes)

    agreed = client.ask(SaslHandshakeRequest(mechanism=MECHANISM), SaslHandshakeResponse, 1)
    assert agreed.error_code == 0
    scram_client = ScramClient(_DIGEST, user, PASSWORD, secrets.token_urlsafe(24))
    challenge = exchange(scram_client.first())
    scram_client.verify(exchange(scram_client.final(challenge)))


def create_users(broker: Peer, users: Iterable[str]) -> None:
    salted = scram.salted_password(_DIGEST, PASSWORD.encode(), _SALT, _ITERATIONS)
    request = AlterUserScramCredentialsRequest(
        deletions=[],
        upsertions=[
            ScramCredentialUpsertion(
                name=user, mechanism=_MECHANISM_NUMBER, iterations=_ITERATIONS, salt=_SALT, salted_password=salted
            )
            for user in users
        ],
    )
    with broker.administrator() as client:
        answer = client.ask(request, AlterUserScramCredentialsResponse, 0)
    assert {result.error_code for result in answer.results} == {0}


def create_acls(broker: Peer, acls: Sequence[Acl]) -> None:
    """Wait until the broker decides by them: Kafka's learns of them after its controller has answered."""
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    everything = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    with broker.administrator() as client:
        answer = client.ask(CreateAclsRequest(creations=creations), CreateAclsResponse, 3)
        assert {result.error_code for result in answer.results} == {0}

        def are_known() -> bool:
            described = client.ask(everything, DescribeAclsResponse, 3).resources
            return sum(len(resource.acls) for resource in described) >= len(set(acls))

        wait_until(are_known, f"{broker.name} does not know its ACLs")


def wait_for_topics(client: RawClient, names: Sequence[str]) -> None:
    """Wait until every partition has a leader."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )

    def are_led() -> bool:
        topics = client.ask(request, MetadataResponse, 12).topics
        return all(not topic.error_code and not any(p.error_code for p in topic.partitions) for topic in topics)

    wait_until(are_led, "topics have no leader")


def settle(broker: Peer, name: str) -> None:
    """Wait until all changes so far are seen by everybody. Kafka's broker learns of them in their order, a while after
    its controller has answered, so a new topic is the last."""
    with broker.administrator() as client:
        client.create(name)
        wait_for_topics(client, [name])
