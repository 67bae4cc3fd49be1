"""Topic settings: Kafka's names and defaults, inheritance from the broker, and DescribeConfigs entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.broker import BrokerConfig
from headwater.config.declaration import (
    INT64_MAX,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Setting,
    SettingType,
    settings_of,
)
from headwater.config.topic import TopicConfig, describe
from headwater.errors import ConfigError
from tests.support.cases import in_one_test

SETTINGS = settings_of(TopicConfig)

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": str(INT64_MAX),
    "flush.ms": str(INT64_MAX),
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": str(INT64_MAX),
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(INT64_MAX),
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
    "errors.deadletterqueue.group.enable": "false",
}
OUR_DEFAULTS = {
    "headwater.delay.enable": "false",
    "headwater.delay.max.ms": "2592000000",
    "headwater.delay.pending.max": "1000000",
    "headwater.priority.enable": "false",
    "headwater.ttl.enable": "false",
    "headwater.ttl.ms": "-1",
    "headwater.flush": "ack",
    "headwater.key.schema.subject": "",
    "headwater.key.schema.validation": "none",
    "headwater.key.subject.name.strategy": "topic",
    "headwater.value.schema.subject": "",
    "headwater.value.schema.validation": "none",
    "headwater.value.subject.name.strategy": "topic",
    "headwater.record.validation": "full",
}


def topic(overrides: dict[str, str] | None = None, broker: BrokerConfig | None = None) -> TopicConfig:
    return TopicConfig.from_overrides(overrides or {}, broker or BrokerConfig())


def accepted(overrides: dict[str, str]) -> TopicConfig | ConfigError:
    try:
        return topic(overrides)
    except ConfigError as error:
        return error


def entry_of(name: str, overrides: dict[str, str] | None = None, broker: BrokerConfig | None = None) -> ConfigEntry:
    return next(entry for entry in describe(overrides or {}, broker or BrokerConfig()) if entry.name == name)


def test_the_settings_and_defaults_are_those_of_kafka_and_some_of_our_own() -> None:
    described = {entry.name: entry.value for entry in describe({}, BrokerConfig())}
    assert described == KAFKA_DEFAULTS | OUR_DEFAULTS


def test_without_topic_and_broker_settings_the_defaults_apply() -> None:
    assert topic() == TopicConfig()


@in_one_test(["declared"], zip(SETTINGS.values()))
def test_every_default_survives_being_written_out_and_read_back(declared: Setting) -> None:
    text = declared.render(declared.default)
    assert text is not None
    assert getattr(topic({declared.name: text}), declared.attribute) == declared.default
    assert type(declared.parse(text)) is type(declared.default)


def test_a_topic_override_beats_the_broker_setting() -> None:
    assert topic({"retention.ms": "5"}, BrokerConfig(log_retention_ms=7)).retention_ms == 5


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        (BrokerConfig(log_retention_hours=2), 7_200_000),
        (BrokerConfig(log_retention_hours=2, log_retention_minutes=3), 180_000),
        (BrokerConfig(log_retention_hours=2, log_retention_minutes=3, log_retention_ms=4), 4),
        (BrokerConfig(log_retention_hours=-1), -1),
    ],
)
def test_retention_comes_from_the_finest_unit_that_the_broker_sets(broker: BrokerConfig, retention_ms: int) -> None:
    assert topic(broker=broker).retention_ms == retention_ms


def test_a_setting_with_a_broker_synonym_inherits_its_value() -> None:
    broker = BrokerConfig(
        log_cleanup_policy=frozenset({"compact"}),
        log_roll_hours=1,
        log_roll_jitter_ms=9,
        log_flush_scheduler_interval_ms=8,
        message_max_bytes=7,
        log_preallocate=True,
        headwater_flush="os",
        log_cleaner_min_cleanable_ratio=0.1,
    )
    config = topic(broker=broker)
    assert (config.is_compacted, config.is_deleted_by_retention) == (True, False)
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (3_600_000, 9, 8)
    assert (config.max_message_bytes, config.headwater_flush, config.min_cleanable_dirty_ratio) == (7, "os", 0.1)
    assert config.preallocate is True


def test_cleanup_policies_combine() -> None:
    both = topic({"cleanup.policy": "compact, delete"})
    assert (both.is_compacted, both.is_deleted_by_retention) == (True, True)
    neither = topic({"cleanup.policy": ""})
    assert (neither.is_compacted, neither.is_deleted_by_retention) == (False, False)


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("producer", None, None),
        ("uncompressed", 0, None),
        ("gzip", 1, -1),
        ("snappy", 2, None),
        ("lz4", 3, 9),
        ("zstd", 4, 3),
    ],
)
def test_a_compression_type_stands_for_a_codec_and_its_level(name: str, codec: int | None, level: int | None) -> None:
    config = topic({"compression.type": name})
    assert (config.stored_codec, config.compression_level) == (codec, level)


def test_a_topic_uses_create_time_unless_it_sets_log_append_time() -> None:
    assert not topic().is_log_append_time
    assert topic({"message.timestamp.type": "LogAppendTime"}).is_log_append_time


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "delete,"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("delete.retention.ms", "-1"),
        ("flush.messages", "0"),
        ("follower.replication.throttled.replicas", "one"),
        ("headwater.flush", "never"),
        ("headwater.record.validation", "none"),
        ("index.interval.bytes", "-1"),
        ("max.compaction.lag.ms", "0"),
        ("max.message.bytes", "2147483648"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.insync.replicas", "0"),
        ("retention.ms", "-2"),
        ("retention.ms", "a week"),
        ("segment.bytes", "13"),
        ("segment.index.bytes", "3"),
        ("segment.ms", "0"),
    ],
)
def test_a_value_that_kafka_refuses_is_refused_by_the_name_of_its_setting(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        topic({name: text})
    assert str(refused.value).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compression.gzip.level", "-1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:101,1:102"),
        ("retention.ms", "0"),
        ("retention.ms", "-1"),
        ("segment.bytes", "14"),
        ("max.message.bytes", "0"),
    ],
)
def test_the_odd_values_that_kafka_accepts_are_accepted(name: str, text: str) -> None:
    assert entry_of(name, {name: text}).value == text
    topic({name: text})


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"^unknown topic setting 'retention.mss'; did you mean 'retention.ms'\?$"):
        topic({"retention.mss": "1"})


def test_a_broker_setting_is_refused_as_a_topic_setting() -> None:
    with pytest.raises(ConfigError, match=r"unknown topic setting 'log\.dir'"):
        topic({"log.dir": "x"})


def test_enabling_tiered_storage_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"remote\.storage\.enable: true is refused because there is no tiered storage"
    ):
        topic({"remote.storage.enable": "true"})


@pytest.mark.parametrize(
    "overrides",
    [
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        {"retention.ms": "10", "local.retention.ms": "11"},
        {"retention.ms": "10", "local.retention.ms": "-1"},
        {"retention.bytes": "10", "local.retention.bytes": "11"},
        {"retention.bytes": "10", "local.retention.bytes": "-1"},
    ],
)
def test_values_that_contradict_each_other_are_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="is more than"):
        topic(overrides)


def test_local_retention_is_unbounded_where_retention_is() -> None:
    config = topic({"retention.ms": "-1", "local.retention.ms": "5", "local.retention.bytes": "-1"})
    assert (config.local_retention_ms, config.local_retention_bytes) == (5, -1)


@given(st.dictionaries(st.sampled_from([*SETTINGS, "unknown"]), st.text(max_size=20), max_size=4))
def test_any_settings_of_a_client_are_accepted_or_refused_in_one_line(overrides: dict[str, str]) -> None:
    broker = BrokerConfig()
    config = accepted(overrides)
    if isinstance(config, ConfigError):
        assert str(config).isprintable()
        return
    described = {entry.name: entry.value for entry in describe(overrides, broker) if entry.value is not None}
    assert TopicConfig.from_overrides(described, broker) == config


# -- descriptions for clients


def test_an_override_is_described_with_the_values_it_hides() -> None:
    broker = BrokerConfig.from_values({"log.retention.minutes": "5"})
    entry = entry_of("retention.ms", {"retention.ms": "+9"}, broker)
    assert (entry.value, entry.source, entry.default) == ("9", ConfigSource.DYNAMIC_TOPIC, False)
    assert (entry.read_only, entry.sensitive, entry.type) == (False, False, SettingType.LONG)
    assert entry.synonyms == (
        ConfigSynonym("retention.ms", "9", ConfigSource.DYNAMIC_TOPIC),
        ConfigSynonym("log.retention.minutes", "5", ConfigSource.STATIC_BROKER),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_an_inherited_value_is_described_in_the_units_of_the_topic() -> None:
    entry = entry_of("retention.ms", broker=BrokerConfig.from_values({"log.retention.minutes": "5"}))
    assert (entry.value, entry.source) == ("300000", ConfigSource.STATIC_BROKER)


def test_an_inherited_live_broker_change_is_described_as_dynamic() -> None:
    entry = entry_of("compression.type", broker=BrokerConfig().changed({"compression.type": "zstd"}))
    assert (entry.value, entry.source) == ("zstd", ConfigSource.DYNAMIC_BROKER)


def test_a_default_value_is_described_as_default() -> None:
    entry = entry_of("segment.bytes")
    assert (entry.source, entry.default) == (ConfigSource.DEFAULT, True)
    assert entry.synonyms == (ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),)


def test_a_setting_without_a_broker_counterpart_is_described_without_synonyms() -> None:
    entry = entry_of("headwater.record.validation")
    assert (entry.value, entry.default, entry.synonyms) == ("full", True, ())


def test_a_list_is_described_in_the_order_in_which_it_was_given() -> None:
    assert entry_of("cleanup.policy", {"cleanup.policy": "delete, compact"}).value == "delete,compact"


def test_the_documentation_of_a_setting_without_effect_says_so() -> None:
    assert "no effect" in entry_of("preallocate").documentation
