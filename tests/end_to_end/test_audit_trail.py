"""Who did what, from where, with which outcome: every kind of event, recorded by a broker with every kind of client."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from headwater.certificate_authority import CertificateAuthority
from headwater.client import (
    AccessAdmin,
    Acl,
    AclFilter,
    Admin,
    AuthenticationFailed,
    Cluster,
    GroupAdmin,
    Operation,
    PatternType,
    Permission,
    Producer,
    Refused,
    ResourceType,
    Role,
    RoleGrant,
    TokenAdmin,
    TopicName,
    TopicPartition,
    UserAdmin,
    read_security,
)
from headwater.client.groups.group_offsets import CommittedOffset
from headwater.config.broker import BrokerConfig
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError
from headwater.ids import GroupId
from headwater.protocol.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headwater.testing import Broker, BrokerSecurity
from tests.support.cli.commands import Commands

USERS = {"admin": "secret of admin", "ben": "secret of ben"}
READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ben", "*", Operation.READ, Permission.ALLOW)
ORDERS = TopicPartition(TopicName("orders"), 0)

Event = dict[str, Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"delegation.token.secret.key": "secret of tokens", "headwater.audit.granted": "true"}
    with Broker(settings, security=BrokerSecurity("SASL_PLAINTEXT", users=USERS, authorizer=True)) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, security=read_security(broker.client_settings())) as connected:
        yield connected


@pytest.fixture
def commands(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    file = tmp_path / "admin.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in broker.client_settings().items()))
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", str(file))
    return Commands(broker.bootstrap_servers)


def events(commands: Commands, *options: str) -> list[Event]:
    return commands.succeed("audit", "query", *options, "--format", "json").rows


def recorded(commands: Commands, action: Callable[[], object], *options: str) -> list[Event]:
    """The events that an action adds."""
    before = {event["id"] for event in events(commands, *options)}
    action()
    return [event for event in events(commands, *options) if event["id"] not in before]


def as_ben(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers, security=read_security(broker.client_settings("ben")))


def in_short(found: Sequence[Event]) -> list[tuple[str, str, str, str]]:
    return [(event["type"], event["user"], event["resource"], event["result"]) for event in found]


def delete_offsets(broker: Broker, cluster: Cluster) -> None:
    topic = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=1)])
    connection = cluster.connection(Endpoint.parse(broker.bootstrap_servers))
    answer = connection.call(OffsetDeleteRequest(group_id="billing", topics=[topic]), OffsetDeleteResponse)
    assert answer.error_code == 0


def test_changes_are_recorded_with_who_made_them_and_from_where(
    commands: Commands, broker: Broker, cluster: Cluster
) -> None:
    admin, access = Admin(cluster), AccessAdmin(cluster)

    def change() -> None:
        admin.create_topic("orders", partition_count=1)
        with pytest.raises(Refused):
            admin.create_topic("orders")
        admin.alter_settings("orders", {"retention.ms": "1000"})
        admin.add_partitions("orders", 2)
        with Producer(cluster) as producer:
            producer.send("orders", b"tea")
        admin.delete_records({ORDERS: -1})
        cluster.topic("by-asking", create=True)
        UserAdmin(cluster).set_password("ann", "secret")
        UserAdmin(cluster).delete_user("ann")
        access.create_acls([READ])
        access.delete_acls([AclFilter(*READ)])
        access.create_role(Role("auditor", {ResourceType.TOPIC: frozenset({Operation.DESCRIBE})}))
        grant = RoleGrant("auditor", "User:ben", ResourceType.ANY, "orders", PatternType.LITERAL)
        access.grant(grant)
        access.revoke(grant)
        access.delete_role("auditor")
        GroupAdmin(cluster).commit(GroupId("billing"), {ORDERS: CommittedOffset(0)})
        delete_offsets(broker, cluster)
        GroupAdmin(cluster).delete_group(GroupId("billing"))
        admin.delete_topic("orders")

    found = [event for event in recorded(commands, change) if not event["type"].startswith(("access.", "auth."))]

    assert in_short(found) == [
        (kind, "User:admin", resource, result)
        for kind, resource, result in (
            ("topic.create", "topic 'orders'", "success"),
            ("topic.create", "topic 'orders'", "failure"),
            ("config.change", "topic 'orders'", "success"),
            ("topic.modify", "topic 'orders'", "success"),
            ("records.delete", "topic 'orders'", "success"),
            ("topic.create", "topic 'by-asking'", "success"),
            ("user.change", "user 'ann'", "success"),
            ("user.change", "user 'ann'", "success"),
            ("acl.change", "User:ben may read topic 'orders'", "success"),
            ("acl.change", "User:ben may read topic 'orders'", "success"),
            ("role.change", "role auditor", "success"),
            ("role.change", "role auditor to User:ben on orders", "success"),
            ("role.change", "role auditor to User:ben on orders", "success"),
            ("role.change", "role auditor", "success"),
            ("offsets.delete", "group 'billing'", "success"),
            ("group.delete", "group 'billing'", "success"),
            ("topic.delete", "topic 'orders'", "success"),
        )
    ]
    assert {event["client_ip"] for event in found} == {"127.0.0.1"}
    assert {event["node"] for event in found} == {1}
    details = [event["details"] for event in found]
    assert details[1]["error"] == "TOPIC_ALREADY_EXISTS"
    assert details[2] == {"settings": "retention.ms"}
    assert details[6:8] == [{"set": "SCRAM-SHA-256,SCRAM-SHA-512"}, {"delete": "SCRAM-SHA-256,SCRAM-SHA-512"}]


def test_delegation_tokens_are_recorded_by_their_ids(commands: Commands, cluster: Cluster) -> None:
    admin = TokenAdmin(cluster)
    ids: list[str] = []

    def change() -> None:
        token = admin.create()
        ids.append(token.id)
        admin.renew(token.hmac)
        admin.expire(token.hmac)
        with pytest.raises(Refused):
            admin.expire(token.hmac)

    found = recorded(commands, change, "--type", "token.change")

    token = f"delegation token '{ids[0]}' of User:admin"
    assert [(event["resource"], event["details"]["action"], event["result"]) for event in found] == [
        (token, "create", "success"),
        (token, "renew", "success"),
        (token, "expire", "success"),
        ("an unknown delegation token", "expire", "failure"),
    ]


def test_log_ins_and_failed_ones_are_recorded(commands: Commands, broker: Broker, cluster: Cluster) -> None:
    token = TokenAdmin(cluster).create()

    def log_in(**settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        security = read_security({**broker.client_settings("ben"), **given})
        with Cluster(broker.bootstrap_servers, security=security) as other:
            other.metadata()

    def act() -> None:
        log_in()
        log_in(sasl_mechanism="PLAIN")
        jaas = f'ScramLoginModule required username="{token.id}" password="{token.password}" tokenauth="true";'
        by_token = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
        with Cluster(broker.bootstrap_servers, security=read_security(by_token)) as other:
            other.metadata()
        for settings in ({"sasl_password": "wrong"}, {"sasl_username": "eve"}):
            with pytest.raises(AuthenticationFailed):
                log_in(**settings)

    found = [event for event in recorded(commands, act, "--type", "auth.") if event["user"] != "User:admin"]
    by_token = [event for event in events(commands, "--type", "auth.success") if "by" in event["details"]]

    assert in_short(found) == [
        ("auth.success", "User:ben", "", "success"),
        ("auth.success", "User:ben", "", "success"),
        ("auth.failure", "User:ben", "", "failure"),
        ("auth.failure", "User:eve", "", "failure"),
    ]
    assert [event["details"]["mechanism"] for event in found] == ["SCRAM-SHA-512", "PLAIN", *["SCRAM-SHA-512"] * 2]
    # The broker does not say, not even here, which of both it was.
    assert {event["details"].get("reason") for event in found[2:]} == {"unknown user or wrong password"}
    assert [(event["user"], event["details"]["by"]) for event in by_token] == [("User:admin", "delegation token")]


def test_denied_and_granted_access_is_recorded_with_the_rule(
    commands: Commands, broker: Broker, cluster: Cluster
) -> None:
    Admin(cluster).create_topic("hidden")
    AccessAdmin(cluster).create_acls([READ._replace(name="shown")])
    Admin(cluster).create_topic("shown")

    def ask() -> None:
        with as_ben(broker) as ben:
            for forbidden in (
                lambda: ben.topic("hidden"),
                lambda: Admin(ben).create_topic("mine"),
                lambda: UserAdmin(ben).set_password("eve", "secret"),
                lambda: AccessAdmin(ben).create_acls([READ]),
                lambda: GroupAdmin(ben).delete_group(GroupId("billing")),
            ):
                with pytest.raises(Refused):
                    forbidden()
            ben.topic("shown")

    found = recorded(commands, ask, "--user", "ben", "--type", "access.")

    assert in_short(found) == [
        ("access.denied", "User:ben", "topic 'hidden'", "denied"),
        ("access.denied", "User:ben", "topic 'mine'", "denied"),
        ("access.denied", "User:ben", "cluster 'kafka-cluster'", "denied"),
        ("access.denied", "User:ben", "cluster 'kafka-cluster'", "denied"),
        ("access.denied", "User:ben", "group 'billing'", "denied"),
        ("access.granted", "User:ben", "topic 'shown'", "success"),
    ]
    assert found[0]["details"] == {"operation": "describe", "reason": "no rule allows it"}
    assert found[-1]["details"] == {"operation": "describe", "reason": "User:ben may read topic 'shown'"}


def test_a_start_a_reload_and_a_stop_are_recorded_for_the_account_of_the_process(tmp_path: Path) -> None:
    settings = {"headwater.audit": "on", "listeners": "127.0.0.1:0", "log.dir": str(tmp_path)}
    found: list[Event] = []
    for _ in range(2):
        with Broker(settings, data_directory=tmp_path) as broker:
            commands = Commands(broker.bootstrap_servers)

            async def reload(changed: dict[str, str], running: Broker = broker) -> None:
                running.node.reload(BrokerConfig.from_values({**settings, **changed}))

            broker.call(reload({"message.max.bytes": "2000000"}))
            # Settings of a topic that the broker's may not contradict.
            commands("topic", "create", "late", "--set", "min.compaction.lag.ms=2")
            with pytest.raises(ConfigError):
                broker.call(reload({"log.cleaner.max.compaction.lag.ms": "1"}))
            found = [event for event in events(commands) if event["type"] != "topic.create"]
    account = {event["user"] for event in found}
    assert len(account) == 1
    assert account.pop().startswith("OS:")
    assert [(event["type"], event["resource"]) for event in found[:4]] == [
        ("cluster.join", "broker 1"),
        ("config.change", "broker"),
        ("config.change", "broker"),
        ("cluster.leave", "broker 1"),
    ]
    assert found[4]["type"] == "cluster.join"
    assert found[0]["details"] == {"listeners": "127.0.0.1:0"}
    assert found[1]["details"]["by"] == "reload"
    assert "message.max.bytes" in found[1]["details"]["settings"].split(",")
    assert (found[2]["result"], "compaction.lag" in found[2]["details"]["reason"]) == ("failure", True)


def test_a_settings_change_of_the_broker_is_recorded_without_values(commands: Commands, broker: Broker) -> None:
    def change() -> None:
        entry = ConfigEntry("headwater.log.level", "warning", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin = AdminClient(broker.client_settings())
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(20)

    (event,) = recorded(commands, change, "--type", "config.")
    assert (event["resource"], event["details"]) == ("broker '1'", {"settings": "headwater.log.level"})


def test_clients_with_certificates_are_recorded(tmp_path: Path) -> None:
    security = BrokerSecurity("SSL", users={"ann": ""}, client_certificates=True)
    stranger = CertificateAuthority(tmp_path)
    stranger.create()
    with Broker(security=security) as broker:
        settings = broker.client_settings()
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        commands = Commands(broker.bootstrap_servers)

        def fail() -> None:
            unknown = str(stranger.issue_client("eve", 1))
            wrong = {"ssl.certificate.location": unknown, "ssl.key.location": unknown}
            for given in (
                settings | wrong,
                {name: settings[name] for name in ("security.protocol", "ssl.ca.location")},
            ):
                with (
                    suppress(AuthenticationFailed),
                    Cluster(broker.bootstrap_servers, security=read_security(given)) as c,
                ):
                    c.metadata()
                    pytest.fail("it was let in")

        fail()
        found = commands.succeed("audit", "query", "--type", "auth.", "--client-config", str(file), "--format", "json")

    certificate, none, success, *_ = found.rows
    assert in_short([success]) == [("auth.success", "User:ann", "", "success")]
    assert success["details"] == {"mechanism": "TLS", "listener": "SSL"}
    assert [event["type"] for event in (certificate, none)] == ["auth.failure"] * 2
    assert "its certificate is refused" in certificate["details"]["reason"]
    assert "did not return a certificate" in none["details"]["reason"]


def test_events_are_shown_in_every_format_and_chosen_by_every_option(commands: Commands, cluster: Cluster) -> None:
    Admin(cluster).create_topic("formats")
    chosen = (
        "--since",
        "1h",
        "--type",
        "topic.create",
        "--user",
        "admin",
        "--resource",
        "formats",
        "--result",
        "success",
    )

    (event,) = events(commands, *chosen)
    assert yaml.safe_load(commands.succeed("audit", "query", *chosen, "--format", "yaml").output) == [event]
    header, line = commands.succeed("audit", "query", *chosen).lines
    assert header.split() == ["TIMESTAMP", "TYPE", "USER", "CLIENT_IP", "RESOURCE", "RESULT", "DETAILS"]
    assert line.split()[:4] == [event["timestamp"], "topic.create", "User:admin", "127.0.0.1"]
    assert event == {
        "id": event["id"],
        "timestamp": event["timestamp"],
        "type": "topic.create",
        "user": "User:admin",
        "client_ip": "127.0.0.1",
        "resource": "topic 'formats'",
        "result": "success",
        "details": {},
        "node": 1,
    }
