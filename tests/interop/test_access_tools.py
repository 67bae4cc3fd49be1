"""Users, rules and delegation tokens of a secured broker, by Kafka's own commands: kafka-configs, kafka-acls and
kafka-delegation-tokens."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.client import AccessAdmin, AuthenticationFailed, Cluster, TokenAdmin, UserAdmin, read_security
from headwater.testing import Broker, BrokerSecurity
from tests.interop import toolchain

pytestmark = pytest.mark.interop

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONFIGS, ACLS, TOKENS = "kafka.admin.ConfigCommand", "AclCommand", "DelegationTokenCommand"
TIMEOUT_S = 120

# Runs a command with options; gives what it prints.
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_SSL", users={"admin": "secret of admin"}, authorizer=True)
    with Broker({"delegation.token.secret.key": "secret of tokens"}, security=security) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, security=read_security(broker.client_settings())) as connected:
        yield connected


@pytest.fixture
def tool(broker: Broker, tmp_path: Path) -> Tool:
    def run(name: str, *options: str) -> str:
        file = java_properties(broker, tmp_path)
        command = toolchain.server_tool(name) if name == CONFIGS else toolchain.tool(name)
        done = subprocess.run(
            [*command, "--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file), *options],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def java_properties(broker: Broker, directory: Path) -> Path:
    file = directory / "admin.properties"
    file.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={broker.ca_file}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} required username="admin" password="secret of admin";\n'
    )
    return file


def log_in(broker: Broker, **settings: str) -> None:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    security = read_security({**broker.client_settings(), **given})
    with Cluster(broker.bootstrap_servers, security=security) as cluster:
        cluster.metadata()


def test_kafka_configs_adds_shows_and_deletes_users(tool: Tool, broker: Broker, cluster: Cluster) -> None:
    user = ("--entity-type", "users", "--entity-name", "ann")
    tool(CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=tea]")
    log_in(broker, sasl_username="ann", sasl_password="tea", sasl_mechanism="SCRAM-SHA-256")
    assert "SCRAM-SHA-256=iterations=8192" in tool(CONFIGS, "--describe", *user)

    tool(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    with pytest.raises(AuthenticationFailed):
        log_in(broker, sasl_username="ann", sasl_password="tea", sasl_mechanism="SCRAM-SHA-256")
    assert "ann" not in UserAdmin(cluster).describe_users()


def test_kafka_acls_adds_lists_and_removes_rules(tool: Tool, cluster: Cluster) -> None:
    rule = ("--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders-")
    tool(ACLS, "--add", *rule, "--resource-pattern-type", "prefixed")
    added = [str(acl) for acl in AccessAdmin(cluster).describe_acls() if acl.principal == "User:ann"]
    assert added == ["User:ann may read topic 'orders-*'"]
    assert "principal=User:ann" in tool(ACLS, "--list", "--topic", "orders-2025", "--resource-pattern-type", "match")

    tool(ACLS, "--remove", *rule, "--resource-pattern-type", "prefixed", "--force")
    assert [acl for acl in AccessAdmin(cluster).describe_acls() if acl.principal == "User:ann"] == []


def test_kafka_delegation_tokens_makes_and_ends_tokens(tool: Tool, cluster: Cluster) -> None:
    created = tool(TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:ann")
    (token,) = TokenAdmin(cluster).describe()
    assert token.id in created
    assert token.password in created
    assert token.id in tool(TOKENS, "--describe", "--owner-principal", "User:admin")
    tool(TOKENS, "--renew", "--renew-time-period", "-1", "--hmac", token.password)
    tool(TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", token.password)
    assert TokenAdmin(cluster).describe() == []
