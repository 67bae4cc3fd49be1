"""Settings of topics, groups and the broker: descriptions with their source, and live changes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.config.declaration import ConfigSource, SettingType
from headwater.errors import ErrorCode
from headwater.protocol.messages.configs import alter_configs as full
from headwater.protocol.messages.configs import incremental_alter_configs as incremental
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headwater.protocol.messages.configs.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient, batch_of

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker for this test alone, since broker settings would affect other tests."""
    with Broker({"num.partitions": "2", "log.retention.ms": "5000"}) as broker:
        yield broker


def describe(
    client: RawClient, resource_type: int, name: str, *keys: str, version: int = 4, **include: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], **include)
    return client.ask(request, DescribeConfigsResponse, version).results[0]


def setting(
    client: RawClient, resource_type: int, name: str, key: str, **include: bool
) -> DescribeConfigsResourceResult:
    (found,) = describe(client, resource_type, name, key, **include).configs
    return found


def change(
    client: RawClient,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> tuple[ErrorCode, str]:
    configs = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (told,) = client.ask(request, incremental.IncrementalAlterConfigsResponse, 1).responses
    return ErrorCode(told.error_code), told.error_message or ""


def replace(
    client: RawClient, resource_type: int, name: str, values: dict[str, str | None], *, validate_only: bool = False
) -> ErrorCode:
    configs = [full.AlterableConfig(name=key, value=value) for key, value in values.items()]
    resource = full.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = full.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (told,) = client.ask(request, full.AlterConfigsResponse, 2).responses
    return ErrorCode(told.error_code)


# -- DescribeConfigs


def test_a_setting_is_described_with_source_synonyms_and_documentation(own: Broker) -> None:
    with RawClient(own) as client:
        client.create("t", retention_ms="9000")
        told = setting(client, TOPIC, "t", "retention.ms", include_synonyms=True, include_documentation=True)

        assert (told.value, told.config_source, told.config_type) == (
            "9000",
            ConfigSource.DYNAMIC_TOPIC,
            SettingType.LONG,
        )
        assert [(one.name, one.value, one.source) for one in told.synonyms][:2] == [
            ("retention.ms", "9000", ConfigSource.DYNAMIC_TOPIC),
            ("log.retention.ms", "5000", ConfigSource.STATIC_BROKER),
        ]
        assert told.documentation
        plain = setting(client, TOPIC, "t", "retention.ms")
        assert (plain.synonyms, plain.documentation) == ([], None)


def test_a_setting_of_a_topic_follows_its_broker_until_the_topic_has_its_own(own: Broker) -> None:
    with RawClient(own) as client:
        client.create("t")
        told = setting(client, TOPIC, "t", "retention.ms")
        assert (told.value, told.config_source) == ("5000", ConfigSource.STATIC_BROKER)

        change(client, BROKER, "1", ("log.retention.ms", SET, "6000"))
        told = setting(client, TOPIC, "t", "retention.ms")
        assert (told.value, told.config_source) == ("6000", ConfigSource.DYNAMIC_BROKER)

        change(client, BROKER, "1", ("log.retention.ms", DELETE, None))
        change(client, BROKER, "", ("log.retention.ms", SET, "7000"))
        told = setting(client, TOPIC, "t", "retention.ms")
        assert (told.value, told.config_source) == ("7000", ConfigSource.DYNAMIC_DEFAULT_BROKER)

        told = setting(client, TOPIC, "t", "segment.bytes")
        assert told.config_source == ConfigSource.DEFAULT


def test_all_settings_are_described_unless_some_are_named(client: RawClient, topic: str) -> None:
    names = {one.name for one in describe(client, TOPIC, topic).configs}
    assert {"cleanup.policy", "retention.ms", "headwater.flush"} <= names
    some = describe(client, TOPIC, topic, "retention.ms", "no.such.setting")
    assert [one.name for one in some.configs] == ["retention.ms"]


@pytest.mark.parametrize("version", range(1, 5))
def test_live_broker_settings_are_described_as_writable(client: RawClient, version: int) -> None:
    told = {one.name: one for one in describe(client, BROKER, "1", version=version).configs}
    assert told["node.id"].read_only
    assert not told["max.connections"].read_only
    assert told["num.partitions"].config_source == ConfigSource.STATIC_BROKER


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no/body", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "metrics", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_unknown_resource_is_refused(client: RawClient, resource_type: int, name: str, code: ErrorCode) -> None:
    told = describe(client, resource_type, name)
    assert (told.error_code, told.configs) == (code, [])
    assert told.error_message
    kind = {BROKER_LOGGER: "BROKER_LOGGER", CLIENT_METRICS: "CLIENT_METRICS", 99: "99"}.get(resource_type)
    assert kind is None or f"type {kind} have no settings" in told.error_message
    assert change(client, resource_type, name, ("retention.ms", SET, "1"))[0] is code
    assert replace(client, resource_type, name, {}) is code


# -- changes


def test_settings_are_set_unset_and_lists_added_to(client: RawClient, topic: str) -> None:
    def policy() -> str | None:
        return setting(client, TOPIC, topic, "cleanup.policy").value

    assert change(client, TOPIC, topic, ("cleanup.policy", APPEND, "compact"))[0] is ErrorCode.NONE
    assert policy() == "delete,compact"
    assert change(client, TOPIC, topic, ("cleanup.policy", APPEND, "compact, delete"))[0] is ErrorCode.NONE
    assert policy() == "delete,compact"
    assert change(client, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))[0] is ErrorCode.NONE
    assert policy() == "compact"
    assert change(client, TOPIC, topic, ("cleanup.policy", DELETE, None))[0] is ErrorCode.NONE
    assert policy() == "delete"
    assert change(client, TOPIC, topic, ("cleanup.policy", DELETE, None))[0] is ErrorCode.NONE, "twice is once"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("no.such.setting", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("segment.bytes", SET, "2000000"), ("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_change_changes_nothing(
    client: RawClient, topic: str, asked: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    before = describe(client, TOPIC, topic)
    assert change(client, TOPIC, topic, *asked)[0] is code
    assert describe(client, TOPIC, topic) == before


def test_an_unknown_setting_is_refused_with_the_nearest_known_one(client: RawClient, topic: str) -> None:
    code, message = change(client, TOPIC, topic, ("max.mesage.bytes", SET, "1"))
    assert code is ErrorCode.INVALID_CONFIG
    assert "max.message.bytes" in message


def test_validate_only_changes_nothing(client: RawClient, topic: str) -> None:
    before = describe(client, TOPIC, topic)
    assert change(client, TOPIC, topic, ("retention.ms", SET, "1"), validate_only=True)[0] is ErrorCode.NONE
    assert replace(client, TOPIC, topic, {"retention.ms": "1"}, validate_only=True) is ErrorCode.NONE
    assert replace(client, TOPIC, topic, {"retention.ms": "x"}, validate_only=True) is ErrorCode.INVALID_CONFIG
    assert describe(client, TOPIC, topic) == before


def test_replacing_all_settings_unsets_those_not_named(client: RawClient, name: str) -> None:
    client.create(name, retention_ms="1000")
    assert replace(client, TOPIC, name, {"segment.bytes": "2000000"}) is ErrorCode.NONE
    assert setting(client, TOPIC, name, "retention.ms").value == "604800000"
    assert replace(client, TOPIC, name, {"segment.bytes": None}) is ErrorCode.INVALID_REQUEST
    assert setting(client, TOPIC, name, "segment.bytes").value == "2000000"


def test_a_change_takes_effect_at_once(client: RawClient, topic: str) -> None:
    batch = batch_of(bytes(2000))
    assert client.produce(topic, batch).error_code == 0
    change(client, TOPIC, topic, ("max.message.bytes", SET, "1000"))
    assert client.produce(topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change(client, TOPIC, topic, ("max.message.bytes", DELETE, None))
    assert client.produce(topic, batch).error_code == 0
    change(client, TOPIC, topic, ("min.insync.replicas", SET, "2"))
    assert client.produce(topic, batch).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.produce(topic, batch, acks=1).error_code == 0


def test_concurrent_changes_do_not_overwrite_each_other(broker: Broker, client: RawClient, topic: str) -> None:
    """Each request changes another setting: a change decided on stale state would undo the ones before it."""
    names = ["retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "max.message.bytes", "flush.ms"]

    def set_one(name: str) -> ErrorCode:
        with RawClient(broker) as other:
            return change(other, TOPIC, topic, (name, SET, "1048576"))[0]

    with ThreadPoolExecutor(len(names)) as threads:
        assert set(threads.map(set_one, names)) == {ErrorCode.NONE}

    assert {one.name: one.value for one in describe(client, TOPIC, topic, *names).configs} == dict.fromkeys(
        names, "1048576"
    )


# -- groups

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
DEFAULT, STATIC = ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER


def test_settings_of_an_unknown_group_are_described(client: RawClient, name: str) -> None:
    told = {one.name: one for one in describe(client, GROUP, name, include_documentation=True).configs}
    of_consumers = {key: one.value for key, one in told.items() if not key.startswith("share.")}
    assert of_consumers == {SESSION: "45000", HEARTBEAT: "200"}
    assert (told[SESSION].config_source, told[HEARTBEAT].config_source) == (DEFAULT, STATIC), "tests have quick groups"
    assert {told[name].config_type for name in of_consumers} == {SettingType.INT}
    assert all(one.documentation and not one.read_only for one in told.values())
    assert [one.name for one in describe(client, GROUP, name, SESSION, "retention.ms").configs] == [SESSION]


def test_the_settings_of_a_group_are_set_and_unset(client: RawClient, name: str) -> None:
    assert change(client, GROUP, name, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))[0] is ErrorCode.NONE
    told = setting(client, GROUP, name, SESSION, include_synonyms=True)
    assert (told.value, told.config_source) == ("50000", ConfigSource.DYNAMIC_GROUP)
    assert [(one.name, one.value, one.source) for one in told.synonyms] == [
        (SESSION, "50000", ConfigSource.DYNAMIC_GROUP),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
    ]
    assert change(client, GROUP, name, (SESSION, DELETE, None))[0] is ErrorCode.NONE
    assert setting(client, GROUP, name, SESSION).value == "45000"
    assert setting(client, GROUP, name, HEARTBEAT).value == "6000"
    assert replace(client, GROUP, name, {SESSION: "60000"}) is ErrorCode.NONE
    assert setting(client, GROUP, name, HEARTBEAT).config_source == STATIC
    assert replace(client, GROUP, name, {}) is ErrorCode.NONE
    assert setting(client, GROUP, name, SESSION).config_source == ConfigSource.DEFAULT


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ((SESSION, SET, "60001"), ErrorCode.INVALID_CONFIG),
        ((SESSION, SET, "soon"), ErrorCode.INVALID_CONFIG),
        ((SESSION, SET, None), ErrorCode.INVALID_REQUEST),
        ((SESSION, APPEND, "50000"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("streams.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_change_of_a_group_changes_nothing(
    client: RawClient, name: str, asked: tuple[str, int, str | None], code: ErrorCode
) -> None:
    assert change(client, GROUP, name, (HEARTBEAT, SET, "6000"), asked)[0] is code
    assert setting(client, GROUP, name, HEARTBEAT).config_source == STATIC


# -- ListConfigResources


def listed(client: RawClient, *types: int, version: int = 1) -> tuple[ErrorCode, set[tuple[int, str]]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    told = client.ask(request, ListConfigResourcesResponse, version)
    return ErrorCode(told.error_code), {(one.resource_type, one.resource_name) for one in told.config_resources}


def test_resources_with_settings_are_listed_by_type(own: Broker) -> None:
    with RawClient(own) as client:
        client.create("t")
        change(client, GROUP, "ann", (SESSION, SET, "50000"))
        change(client, GROUP, "bob", (SESSION, SET, "50000"))
        change(client, GROUP, "bob", (SESSION, DELETE, None))
        assert listed(client, GROUP) == (ErrorCode.NONE, {(GROUP, "ann")})
        assert listed(client, TOPIC, BROKER) == (ErrorCode.NONE, {(TOPIC, "t"), (BROKER, "1")})
        assert listed(client, BROKER_LOGGER, CLIENT_METRICS) == (ErrorCode.NONE, set())
        assert listed(client) == (ErrorCode.NONE, {(GROUP, "ann"), (TOPIC, "t"), (BROKER, "1")})
        assert listed(client, GROUP, 99) == (ErrorCode.UNSUPPORTED_VERSION, set())
        assert listed(client, version=0) == (ErrorCode.NONE, set()), "it asks for client metrics"


# -- the broker


def test_a_live_broker_change_survives_a_restart(tmp_path: Path, name: str) -> None:
    with Broker({"auto.create.topics.enable": "true"}, data_directory=tmp_path) as broker, RawClient(broker) as client:
        client.create(name)
        assert change(client, BROKER, "1", ("message.max.bytes", SET, "1000"))[0] is ErrorCode.NONE
        assert client.produce(name, batch_of(bytes(2000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert change(client, BROKER, "1", ("fetch.max.bytes", SET, "2048"))[0] is ErrorCode.NONE
        told = setting(client, BROKER, "1", "message.max.bytes")
        assert (told.value, told.config_source) == ("1000", ConfigSource.DYNAMIC_BROKER)

    with Broker(data_directory=tmp_path) as broker, RawClient(broker) as client:
        assert client.produce(name, batch_of(bytes(2000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert change(client, BROKER, "1", ("message.max.bytes", DELETE, None))[0] is ErrorCode.NONE
        assert client.produce(name, batch_of(bytes(2000))).error_code == 0
        assert replace(client, BROKER, "1", {}) is ErrorCode.NONE
        assert setting(client, BROKER, "1", "fetch.max.bytes").config_source == ConfigSource.DEFAULT


@pytest.mark.parametrize("name", ["", "1"])
def test_a_setting_that_only_kafka_needs_is_kept_and_described_as_without_effect(own: Broker, name: str) -> None:
    source = ConfigSource.DYNAMIC_BROKER if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    with RawClient(own) as client:
        assert setting(client, BROKER, "1", "num.io.threads").value == "8", "Kafka's default"
        assert change(client, BROKER, name, ("num.io.threads", SET, "16"), ("background.threads", SET, "2"))[0] == 0
        told = setting(client, BROKER, "1", "num.io.threads", include_documentation=True)
        assert (told.value, told.config_source, told.read_only) == ("16", source, False)
        assert "no effect" in (told.documentation or "")
        assert change(client, BROKER, name, ("num.io.threads", SET, "0"))[0] is ErrorCode.INVALID_CONFIG
        code, message = change(client, BROKER, name, ("num.oi.threads", SET, "16"))
        assert code is ErrorCode.INVALID_CONFIG
        assert "did you mean 'num.io.threads'?" in message


def sources(client: RawClient, key: str) -> list[tuple[str | None, int]]:
    """The values of a broker's setting, the one in effect first."""
    return [(one.value, one.source) for one in setting(client, BROKER, "1", key, include_synonyms=True).synonyms]


def test_defaults_of_all_brokers_are_kept_apart_from_the_settings_of_one(tmp_path: Path) -> None:
    key = "fetch.max.bytes"
    factory = ("57671680", ConfigSource.DEFAULT)
    static = ("3000", ConfigSource.STATIC_BROKER)
    of_all = ("2000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    own = ("1500", ConfigSource.DYNAMIC_BROKER)
    with Broker({key: "3000"}, data_directory=tmp_path) as broker, RawClient(broker) as client:
        assert describe(client, BROKER, "").configs == [], "there is none yet"
        assert change(client, BROKER, "", (key, SET, "2000"))[0] is ErrorCode.NONE
        assert sources(client, key) == [of_all, static, factory]
        assert change(client, BROKER, "1", (key, SET, "1500"))[0] is ErrorCode.NONE
        assert sources(client, key) == [own, of_all, static, factory]
        (listed,) = describe(client, BROKER, "", include_synonyms=True).configs
        assert (listed.name, listed.value, listed.config_source) == (key, *of_all)
        assert [(one.value, one.source) for one in listed.synonyms] == [of_all]

    with Broker({key: "3000"}, data_directory=tmp_path) as broker, RawClient(broker) as client:
        assert sources(client, key) == [own, of_all, static, factory]
        assert change(client, BROKER, "1", (key, DELETE, None))[0] is ErrorCode.NONE
        assert sources(client, key) == [of_all, static, factory]
        assert replace(client, BROKER, "1", {}) is ErrorCode.NONE
        assert sources(client, key) == [of_all, static, factory], "they are not the broker's own"
        assert replace(client, BROKER, "", {}) is ErrorCode.NONE
        assert sources(client, key) == [static, factory]
        assert describe(client, BROKER, "").configs == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("node.id", "2"),
        ("listeners", "127.0.0.1:1"),
        ("max.connections", "0"),
        ("no.such", "1"),
        ("max.connectons", "1"),
    ],
)
def test_a_change_of_a_read_only_broker_setting_is_refused(client: RawClient, key: str, value: str) -> None:
    assert change(client, BROKER, "1", (key, SET, value))[0] is ErrorCode.INVALID_CONFIG
    assert replace(client, BROKER, "1", {key: value}) is ErrorCode.INVALID_CONFIG


def test_a_change_of_the_broker_that_contradicts_a_topic_is_refused(tmp_path: Path, name: str) -> None:
    """Otherwise the contradiction would prevent the next start."""
    with Broker(data_directory=tmp_path) as broker, RawClient(broker) as client:
        client.create(name, max_compaction_lag_ms="1000")
        code, message = change(client, BROKER, "1", ("log.cleaner.min.compaction.lag.ms", SET, "5000"))
        assert code is ErrorCode.INVALID_CONFIG
        assert name in message
        assert setting(client, TOPIC, name, "min.compaction.lag.ms").value == "0"
    with Broker(data_directory=tmp_path) as broker, RawClient(broker) as client:
        assert client.produce(name, batch_of(b"v")).error_code == 0
