"""Settings of groups: Kafka's names and defaults, what a group inherits from the broker, and the bounds of both."""

import pytest

from headwater.config.broker import BrokerConfig
from headwater.config.declaration import INT32_MAX, ConfigEntry, ConfigSource, ConfigSynonym, SettingType, settings_of
from headwater.config.group import GroupConfig, describe
from headwater.config.group_defaults import GroupDefaults
from headwater.errors import ConfigError

KAFKA_DEFAULTS = {
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.size": str(INT32_MAX),
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.max.size": str(INT32_MAX),
    "group.consumer.assignors": "uniform,range",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.regex.refresh.interval.ms": "600000",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.segment.bytes": "16777216",
    "offsets.topic.compression.codec": "0",
}
# Kafka's default is 3; a single node has one replica.
OUR_DEFAULTS = {
    "offsets.topic.replication.factor": "1",
    "headwater.groups.max": "100000",
    "headwater.groups.memory.max.bytes": "268435456",
    "headwater.group.metadata.max.bytes": "1048576",
}
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
WIDE = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.max.heartbeat.interval.ms": "60000",
}


def group(overrides: dict[str, str] | None = None, broker: dict[str, str] | None = None) -> GroupConfig:
    return GroupConfig.from_overrides(overrides or {}, BrokerConfig.from_values(broker or {}))


def entry_of(name: str, overrides: dict[str, str], broker: dict[str, str]) -> ConfigEntry:
    entries = describe(overrides, BrokerConfig.from_values(broker))
    return next(entry for entry in entries if entry.name == name)


# -- settings of the broker


def _is_about_shares(name: str) -> bool:
    return ".share." in f".{name}" or name.startswith("errors.deadletterqueue.")


def test_broker_settings_and_defaults_are_kafkas_and_a_few_of_our_own() -> None:
    declared = {name: each for name, each in settings_of(GroupDefaults).items() if not _is_about_shares(name)}
    assert {name: each.render(each.default) for name, each in declared.items()} == KAFKA_DEFAULTS | OUR_DEFAULTS


def test_broker_settings_of_groups_need_a_restart_as_in_kafka() -> None:
    dynamic = {name for name, declared in settings_of(GroupDefaults).items() if declared.dynamic}
    assert all(name.startswith("errors.deadletterqueue.") for name in dynamic)


def test_a_broker_config_includes_the_settings_of_groups() -> None:
    config = BrokerConfig.from_values({"group.max.size": "7", "log.retention.ms": "5"})
    assert (config.group_max_size, config.log_retention_ms, config.offsets_retention_ms) == (7, 5, 604_800_000)
    assert config.origin_of("group.max.size") is ConfigSource.STATIC_BROKER
    assert GroupDefaults(group_max_size=7).group_max_size == 7


def test_assignors_keep_their_order_without_duplicates() -> None:
    assert BrokerConfig().group_consumer_assignors == ("uniform", "range")
    config = BrokerConfig.from_values({"group.consumer.assignors": " range, uniform ,range"})
    assert config.group_consumer_assignors == ("range", "uniform")
    declared = settings_of(GroupDefaults)["group.consumer.assignors"]
    assert declared.type is SettingType.LIST
    assert declared.normalize("range , uniform") == "range,uniform"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            ["group.min.session.timeout.ms (9)", "group.max.session.timeout.ms (8)"],
        ),
        (
            {"group.consumer.min.session.timeout.ms": "60001"},
            ["group.consumer.min.session.timeout.ms (60001)", "group.consumer.max.session.timeout.ms (60000)"],
        ),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            ["group.consumer.min.session.timeout.ms (45000)", "group.consumer.session.timeout.ms (44999)"],
        ),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            ["group.consumer.session.timeout.ms (60001)", "group.consumer.max.session.timeout.ms (60000)"],
        ),
        (
            {"group.consumer.max.heartbeat.interval.ms": "4999"},
            ["group.consumer.min.heartbeat.interval.ms (5000)", "group.consumer.max.heartbeat.interval.ms (4999)"],
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "4999"},
            ["group.consumer.min.heartbeat.interval.ms (5000)", "group.consumer.heartbeat.interval.ms (4999)"],
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "15001"},
            ["group.consumer.heartbeat.interval.ms (15001)", "group.consumer.max.heartbeat.interval.ms (15000)"],
        ),
        (
            WIDE | {"group.consumer.heartbeat.interval.ms": "45000"},
            ["group.consumer.heartbeat.interval.ms (45000)", "group.consumer.session.timeout.ms (45000)"],
        ),
        ({"group.consumer.assignors": ""}, ["group.consumer.assignors: at least one"]),
        ({"group.consumer.assignors": "uniform,sticky"}, ["group.consumer.assignors: 'sticky'"]),
        ({"group.consumer.regex.refresh.interval.ms": "9999"}, ["group.consumer.regex.refresh.interval.ms: 9999"]),
        ({"offsets.topic.num.partitions": "0"}, ["offsets.topic.num.partitions: 0"]),
        ({"offsets.topic.compression.codec": "5"}, ["offsets.topic.compression.codec: 5"]),
    ],
)
def test_a_contradictory_or_out_of_range_setting_is_refused_by_name(values: dict[str, str], named: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_values(values)
    assert all(name in str(refused.value) for name in named)


# -- settings of a group


def test_a_groups_defaults_are_those_of_kafka() -> None:
    described = {entry.name: entry.value for entry in describe({}, BrokerConfig())}
    assert {name: value for name, value in described.items() if name.startswith("consumer.")} == {
        SESSION: "45000",
        HEARTBEAT: "5000",
    }
    assert group() == GroupConfig()


def test_settings_without_an_override_come_from_the_broker() -> None:
    config = group({HEARTBEAT: "6000"}, {"group.consumer.session.timeout.ms": "50000"})
    assert (config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms) == (50_000, 6000)


@pytest.mark.parametrize(
    ("overrides", "broker", "named"),
    [
        ({SESSION: "44999"}, {}, "group.consumer.min.session.timeout.ms (45000)"),
        ({SESSION: "60001"}, {}, "group.consumer.max.session.timeout.ms (60000)"),
        ({HEARTBEAT: "4999"}, {}, "group.consumer.min.heartbeat.interval.ms (5000)"),
        ({HEARTBEAT: "15001"}, {}, "group.consumer.max.heartbeat.interval.ms (15000)"),
        ({HEARTBEAT: "45000"}, WIDE, "consumer.session.timeout.ms (45000)"),
        ({SESSION: "5000"}, WIDE, "consumer.heartbeat.interval.ms (5000)"),
        ({SESSION: "0"}, WIDE, "consumer.session.timeout.ms: 0"),
        ({SESSION: "soon"}, {}, "consumer.session.timeout.ms: 'soon'"),
        ({"consumer.sesion.timeout.ms": "45000"}, {}, "did you mean 'consumer.session.timeout.ms'"),
        ({"streams.session.timeout.ms": "45000"}, {}, "unknown group setting"),
    ],
)
def test_a_group_setting_outside_its_bounds_is_refused_by_name(
    overrides: dict[str, str], broker: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        group(overrides, broker)
    assert named in str(refused.value)


def test_values_at_the_bounds_are_accepted() -> None:
    assert group({SESSION: "60000", HEARTBEAT: "15000"}).consumer_session_timeout_ms == 60_000
    assert group({SESSION: "45000", HEARTBEAT: "5000"}) == GroupConfig()


def test_a_setting_is_described_with_all_its_synonyms() -> None:
    broker = {"group.consumer.session.timeout.ms": "50000"}
    default = ConfigSynonym("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT)
    static = ConfigSynonym("group.consumer.session.timeout.ms", "50000", ConfigSource.STATIC_BROKER)
    own = ConfigSynonym(SESSION, "55000", ConfigSource.DYNAMIC_GROUP)

    told = entry_of(SESSION, {SESSION: " 55000"}, broker)
    assert (told.value, told.source, told.synonyms) == ("55000", ConfigSource.DYNAMIC_GROUP, (own, static, default))
    assert not told.read_only
    assert not told.default
    told = entry_of(SESSION, {}, broker)
    assert (told.value, told.source, told.synonyms) == ("50000", ConfigSource.STATIC_BROKER, (static, default))
    told = entry_of(SESSION, {}, {})
    assert (told.value, told.source, told.synonyms) == ("45000", ConfigSource.DEFAULT, (default,))
