"""Broker settings: accepted values, live changes, and their descriptions for clients."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.broker import BrokerConfig, describe
from headwater.config.broker_settings import broker_settings_class
from headwater.config.declaration import (
    INT,
    INT32_MAX,
    STRING,
    ConfigSource,
    ConfigSynonym,
    Setting,
    SettingType,
    Value,
    find_setting,
    setting,
    settings_of,
)
from headwater.config.topic import TopicConfig
from headwater.errors import ConfigError, ErrorCode
from tests.support.cases import in_one_test

SETTINGS = settings_of(BrokerConfig)


def parsed(declared: Setting, text: str) -> Value | ConfigError:
    try:
        return declared.parse(text)
    except ConfigError as error:
        return error


# -- declarations


@in_one_test(["declared"], zip(SETTINGS.values()))
def test_every_default_is_a_value_that_the_setting_accepts(declared: Setting) -> None:
    text = declared.render(declared.default)
    assert text is None or declared.parse(text) == declared.default
    assert getattr(BrokerConfig(), declared.attribute) == declared.default


@in_one_test(["declared"], zip(SETTINGS.values()))
def test_every_setting_is_documented_in_a_sentence(declared: Setting) -> None:
    assert declared.documentation[0].isupper()
    assert declared.documentation.endswith((".", ".)"))


def test_no_two_settings_share_an_environment_variable() -> None:
    assert len({declared.variable for declared in SETTINGS.values()}) == len(SETTINGS)


def test_the_environment_variable_of_our_own_settings_does_not_repeat_the_prefix() -> None:
    assert SETTINGS["headwater.flush"].variable == "HEADWATER_FLUSH"
    assert SETTINGS["log.retention.ms"].variable == "HEADWATER_LOG_RETENTION_MS"


def test_the_defaults_do_not_contradict_each_other() -> None:
    BrokerConfig().check()


def test_settings_with_equal_values_are_equal() -> None:
    three, four = BrokerConfig(num_partitions=3), BrokerConfig(num_partitions=4)
    assert three == BrokerConfig(num_partitions=3)
    assert three != four
    assert three != TopicConfig()
    assert len({three, BrokerConfig(num_partitions=3), four}) == 2
    assert three == BrokerConfig.from_values({"num.partitions": "3"}), "wherever a value came from"


def test_settings_are_shown_by_name() -> None:
    shown = repr(BrokerConfig(num_partitions=7))
    assert shown.startswith("BrokerConfig(")
    assert "num_partitions=7" in shown
    assert ", origins=" not in shown


def test_an_undeclared_setting_is_refused_by_the_constructor() -> None:
    with pytest.raises(TypeError, match="BrokerConfig has no partitions"):
        BrokerConfig(partitions=7)  # pyright: ignore[reportCallIssue]


def test_settings_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BrokerConfig().num_partitions = 7  # pyright: ignore[reportAttributeAccessIssue]


# -- values


@given(st.integers())
def test_a_whole_number_is_accepted_exactly_within_its_bounds(number: int) -> None:
    declared = SETTINGS["max.connections"]
    if 1 <= number <= INT32_MAX:
        assert declared.parse(f" {number} ") == number
    else:
        with pytest.raises(ConfigError, match=r"max\.connections"):
            declared.parse(str(number))


@given(st.text())
def test_any_text_is_parsed_or_refused_with_one_clear_error(text: str) -> None:
    for declared in SETTINGS.values():
        outcome = parsed(declared, text)
        if isinstance(outcome, ConfigError):
            assert str(outcome).startswith(f"{declared.name}: ")
            assert str(outcome).isprintable()
            assert outcome.code is ErrorCode.INVALID_CONFIG
        else:
            assert declared.parse(declared.normalize(text)) == outcome


@pytest.mark.parametrize("text", [",", "clicks,", "clicks,,orders"])
def test_a_list_with_an_empty_item_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^sasl\.oauthbearer\.expected\.audience: .* has an empty item"):
        SETTINGS["sasl.oauthbearer.expected.audience"].parse(text)


@pytest.mark.parametrize("text", ["", "1_000", "0x10", "1.0", "٣", "nan", "9" * 100, "1 0"])
def test_python_spellings_of_numbers_that_java_does_not_know_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^num\.partitions: "):
        SETTINGS["num.partitions"].parse(text)


@pytest.mark.parametrize("text", ["nan", "inf", "-0.1", "1.01", "half", "1e400", ""])
def test_a_ratio_outside_zero_to_one_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ratio"):
        SETTINGS["log.cleaner.min.cleanable.ratio"].parse(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), (".5", 0.5), ("1e-1", 0.1), ("1.", 1.0)])
def test_a_ratio_may_be_written_as_in_java(text: str, value: float) -> None:
    assert SETTINGS["log.cleaner.min.cleanable.ratio"].parse(text) == value


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), (" TRUE ", True)])
def test_booleans_are_accepted_in_any_case(text: str, value: bool) -> None:
    assert SETTINGS["delete.topic.enable"].parse(text) is value


@pytest.mark.parametrize("text", ["yes", "1", ""])
def test_words_other_than_true_and_false_are_refused_as_booleans(text: str) -> None:
    with pytest.raises(ConfigError, match="neither true nor false"):
        SETTINGS["delete.topic.enable"].parse(text)


def test_integers_are_bounded_by_32_or_64_bits() -> None:
    with pytest.raises(ConfigError, match="32 bits"):
        SETTINGS["log.segment.bytes"].parse(str(2**31))
    assert SETTINGS["log.retention.bytes"].parse(str(2**31)) == 2**31
    with pytest.raises(ConfigError, match="64 bits"):
        SETTINGS["log.retention.bytes"].parse(str(2**63))


def test_minus_one_means_no_limit_only_where_the_setting_says_so() -> None:
    assert SETTINGS["connections.max.idle.ms"].parse("-1") == -1
    with pytest.raises(ConfigError, match="out of range"):
        SETTINGS["connections.max.idle.ms"].parse("0")
    with pytest.raises(ConfigError, match="at least 1"):
        SETTINGS["max.connections"].parse("-1")


def test_a_choice_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'intervall' is not one of ack, interval, os; did you mean 'interval'\?"):
        SETTINGS["headwater.flush"].parse("intervall")


@pytest.mark.parametrize("text", ["rack\n1", "\x1b[31mred", "a\x00b"])
def test_text_that_cannot_be_printed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be printed"):
        SETTINGS["broker.rack"].parse(text)


def test_overlong_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="100000 characters"):
        SETTINGS["broker.rack"].parse("x" * 100_000)


def test_a_data_directory_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^log\.dir: "):
        BrokerConfig.from_values({"log.dir": " "})


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"^unknown broker setting 'log.retention.mss'; did you mean 'log.retention.ms'\?"
    ):
        BrokerConfig.from_values({"log.retention.mss": "1"})


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "x" * 10_000])
def test_a_name_like_no_other_is_refused_without_a_guess(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        find_setting(BrokerConfig, name, "broker")
    assert "did you mean" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"}, "is more than"),
        ({"listeners": "0.0.0.0:9092"}, "set advertised.listeners"),
        ({"listeners": ":9092"}, "set advertised.listeners"),
        ({"advertised.listeners": "0.0.0.0:9092"}, "clients cannot connect"),
        ({"advertised.listeners": "broker.example:0"}, "clients cannot connect"),
        ({"socket.request.max.bytes": "2000000", "queued.max.request.bytes": "1048576"}, "would never be read"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig.from_values(values)


# -- changing while running


def test_a_live_setting_can_change_while_running_and_says_so() -> None:
    config = BrokerConfig().changed({"max.connections": "5"})
    assert config.max_connections == 5
    assert config.origin_of("max.connections") is ConfigSource.DYNAMIC_BROKER


def test_a_setting_that_needs_a_restart_cannot_change_while_running() -> None:
    with pytest.raises(ConfigError, match=r"log\.dir: can only be set when the broker starts"):
        BrokerConfig().changed({"log.dir": "elsewhere"})


def test_a_reload_applies_live_settings_and_names_those_that_need_a_restart() -> None:
    running = BrokerConfig.from_values({"num.partitions": "6", "log.dir": "a"})
    fresh = BrokerConfig.from_values({"log.retention.hours": "1", "log.dir": "b"})

    config, waiting = running.reloaded(fresh)

    assert (config.num_partitions, config.log_retention_hours, config.log_dir) == (3, 1, "a")
    assert config.origin_of("num.partitions") is ConfigSource.DEFAULT
    assert config.origin_of("log.dir") is ConfigSource.STATIC_BROKER
    assert waiting == ("log.dir",)


def test_a_reload_of_contradictory_settings_is_refused() -> None:
    running = BrokerConfig(log_cleaner_max_compaction_lag_ms=10)
    with pytest.raises(ConfigError, match="is more than"):
        running.reloaded(dataclasses.replace(running, log_cleaner_min_compaction_lag_ms=20))


# -- descriptions for clients


def test_an_untouched_setting_is_described_as_default() -> None:
    entry = next(entry for entry in describe(BrokerConfig()) if entry.name == "num.partitions")
    assert (entry.value, entry.source, entry.default, entry.type) == ("3", ConfigSource.DEFAULT, True, SettingType.INT)
    assert entry.synonyms == (ConfigSynonym("num.partitions", "3", ConfigSource.DEFAULT),)


def test_a_value_set_to_its_default_is_still_described_as_set() -> None:
    config = BrokerConfig.from_values({"num.partitions": "3"})
    entry = next(entry for entry in describe(config) if entry.name == "num.partitions")
    assert (entry.source, entry.default) == (ConfigSource.STATIC_BROKER, False)
    assert [synonym.source for synonym in entry.synonyms] == [ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT]


def test_fallback_settings_are_described_as_synonyms() -> None:
    config = BrokerConfig.from_values({"log.retention.minutes": "30"})
    entry = next(entry for entry in describe(config) if entry.name == "log.retention.ms")
    assert entry.value is None
    assert [(synonym.name, synonym.value) for synonym in entry.synonyms] == [
        ("log.retention.minutes", "30"),
        ("log.retention.hours", "168"),
    ]


def test_only_settings_that_need_a_restart_are_described_as_read_only() -> None:
    read_only = {entry.name for entry in describe(BrokerConfig()) if entry.read_only}
    assert {"node.id", "listeners", "log.dir"} <= read_only
    assert not read_only & {"log.retention.ms", "max.connections", "headwater.log.level"}


def test_a_sensitive_value_is_never_described() -> None:
    @broker_settings_class
    class Guarded(BrokerConfig):
        headwater_token: str = setting(STRING, "headwater.token", "", "A secret.", sensitive=True)

    config = Guarded(headwater_token="hush")
    declared = settings_of(Guarded)["headwater.token"]
    entry = declared.entry(
        declared.disclosed(config.headwater_token),
        config.origin_of("headwater.token"),
        config.lookups(["headwater.token"]),
        read_only=False,
    )
    assert entry.sensitive
    assert "hush" not in repr(entry)


def test_a_field_must_carry_the_name_of_its_setting() -> None:
    @dataclasses.dataclass(frozen=True)
    class Misnamed:
        partitions: int = setting(INT, "num.partitions", 1, "Declared under another name.")

    with pytest.raises(AssertionError, match=r"partitions declares num\.partitions"):
        settings_of(Misnamed)
