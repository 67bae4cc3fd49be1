"""Settings of share groups: Kafka's names, defaults and bounds, for the broker and for one group."""

import pytest

from headwater.config.broker import BrokerConfig
from headwater.config.declaration import settings_of
from headwater.config.group import GroupConfig, describe, reset_duration_ms
from headwater.config.share_defaults import ShareDefaults
from headwater.errors import ConfigError

KAFKA_DEFAULTS = {
    "group.share.session.timeout.ms": "45000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.max.session.timeout.ms": "60000",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.max.heartbeat.interval.ms": "15000",
    "group.share.max.size": "200",
    "group.share.assignors": "simple",
    "group.share.max.share.sessions": "2000",
    "group.share.record.lock.duration.ms": "30000",
    "group.share.min.record.lock.duration.ms": "15000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.delivery.count.limit": "5",
    "group.share.min.delivery.count.limit": "2",
    "group.share.max.delivery.count.limit": "10",
    "group.share.partition.max.record.locks": "2000",
    "group.share.min.partition.max.record.locks": "100",
    "group.share.max.partition.max.record.locks": "4000",
    "share.coordinator.state.topic.num.partitions": "50",
    "share.coordinator.state.topic.compression.codec": "0",
    "share.coordinator.snapshot.update.records.per.snapshot": "500",
    "share.coordinator.state.topic.prune.interval.ms": "300000",
    "errors.deadletterqueue.topic.name.prefix": "dlq.",
}
OUR_DEFAULTS = {
    "share.coordinator.state.topic.segment.bytes": "16777216",
    # A single node has one replica.
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "headwater.share.partitions.max": "100000",
    # A group that asks for dead letters has them.
    "errors.deadletterqueue.auto.create.topics.enable": "true",
}
DYNAMIC = {"errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix"}
GROUP_DEFAULTS = {
    "share.session.timeout.ms": "45000",
    "share.heartbeat.interval.ms": "5000",
    "share.record.lock.duration.ms": "30000",
    "share.delivery.count.limit": "5",
    "share.partition.max.record.locks": "2000",
    "share.auto.offset.reset": "latest",
    "share.isolation.level": "read_uncommitted",
    "share.renew.acknowledge.enable": "true",
}


def test_broker_settings_and_defaults_are_kafkas_and_a_few_of_our_own() -> None:
    declared = {name: each.render(each.default) for name, each in settings_of(ShareDefaults).items()}
    assert declared == KAFKA_DEFAULTS | OUR_DEFAULTS
    assert {name for name, each in settings_of(ShareDefaults).items() if each.dynamic} == DYNAMIC


def test_a_groups_defaults_are_those_of_kafka() -> None:
    described = {entry.name: entry.value for entry in describe({}, BrokerConfig())}
    assert {name: value for name, value in described.items() if name.startswith("share.")} == GROUP_DEFAULTS
    assert {name: value for name, value in described.items() if name.startswith("headwater.")} == {
        "headwater.share.retry.backoff.ms": "0",
        "headwater.share.retry.backoff.factor": "2.0",
        "headwater.share.retry.backoff.max.ms": "60000",
        "headwater.deadletterqueue.enable": "false",
        "headwater.deadletterqueue.expired.enable": "false",
        "headwater.share.priority.weights": "50,25,15,7,3",
        "headwater.share.priority.boost.ms": "30000",
        "headwater.share.priority.ranges.max": "20000",
    }
    assert {name: value for name, value in described.items() if name.startswith("errors.")} == {
        "errors.deadletterqueue.topic.name": "",
        # A dead letter that can be put back has the content of its record; Kafka's default is false.
        "errors.deadletterqueue.copy.record.enable": "true",
    }


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"group.share.delivery.count.limit": "11"}, "group.share.delivery.count.limit: 11"),
        ({"group.share.max.delivery.count.limit": "26"}, "group.share.max.delivery.count.limit: 26"),
        ({"group.share.record.lock.duration.ms": "14999"}, "group.share.min.record.lock.duration.ms (15000)"),
        ({"group.share.partition.max.record.locks": "4001"}, "group.share.max.partition.max.record.locks (4000)"),
        ({"group.share.session.timeout.ms": "60001"}, "group.share.max.session.timeout.ms (60000)"),
        (
            {"group.share.max.heartbeat.interval.ms": "50000", "group.share.heartbeat.interval.ms": "45000"},
            "group.share.session.timeout.ms (45000)",
        ),
        ({"group.share.assignors": "uniform"}, "group.share.assignors: 'uniform'"),
    ],
)
def test_a_broker_setting_outside_its_bounds_is_refused_by_name(values: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_values(values)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit (10)"),
        ({"share.delivery.count.limit": "1"}, "share.delivery.count.limit: 1"),
        ({"share.record.lock.duration.ms": "14999"}, "group.share.min.record.lock.duration.ms (15000)"),
        ({"share.partition.max.record.locks": "99"}, "share.partition.max.record.locks: 99"),
        ({"share.session.timeout.ms": "1"}, "group.share.min.session.timeout.ms (45000)"),
        ({"share.isolation.level": "serializable"}, "share.isolation.level: 'serializable'"),
        ({"share.auto.offset.reset": "none"}, "share.auto.offset.reset: 'none'"),
        ({"share.auto.offset.reset": "by_duration:-PT1H"}, "share.auto.offset.reset"),
        ({"errors.deadletterqueue.topic.name": "dlq/orders"}, "errors.deadletterqueue.topic.name: 'dlq/orders'"),
        ({"errors.deadletterqueue.topic.name": "__dlq"}, "errors.deadletterqueue.topic.name: '__dlq'"),
        ({"errors.deadletterqueue.topic.name": "x" * 250}, "errors.deadletterqueue.topic.name"),
    ],
)
def test_a_group_setting_outside_its_bounds_is_refused_by_name(overrides: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        GroupConfig.from_overrides(overrides, BrokerConfig())
    assert named in str(refused.value)


def test_a_group_may_go_beyond_the_default_as_far_as_the_broker_lets_it() -> None:
    broker = BrokerConfig.from_values({"group.share.max.delivery.count.limit": "25"})
    assert GroupConfig.from_overrides({"share.delivery.count.limit": "25"}, broker).share_delivery_count_limit == 25


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", None),
        ("latest", None),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.5S", (((24 + 2) * 60 + 3) * 60 + 4) * 1000 + 500),
        ("by_duration:pt0.0001s", 0),
    ],
)
def test_a_reset_names_an_end_of_the_log_or_a_time(text: str, expected: int | None) -> None:
    assert reset_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H", "PT1H"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        reset_duration_ms(text)
