"""Sources of broker settings: their precedence, and errors that name the source."""

from pathlib import Path

import pytest

from headwater.config.broker import BrokerConfig
from headwater.config.declaration import ConfigSource, settings_of
from headwater.config.loader import Effective, find_file, load
from headwater.errors import ConfigError


def write(directory: Path, text: str) -> Path:
    file = directory / "headwater.toml"
    file.write_text(text)
    return file


def test_the_strongest_source_wins(tmp_path: Path) -> None:
    file = write(tmp_path, '"num.partitions" = 1\n"max.connections" = 1\n"fetch.max.bytes" = 2048')
    environment = {"HEADWATER_NUM_PARTITIONS": "2", "HEADWATER_MAX_CONNECTIONS": "2", "PATH": "/bin"}

    effective = load({"num.partitions": "3"}, environment, file)

    config = effective.config
    assert (config.num_partitions, config.max_connections, config.fetch_max_bytes) == (3, 2, 2048)
    assert effective.sources["num.partitions"] == "command line"
    assert effective.sources["max.connections"] == "environment HEADWATER_MAX_CONNECTIONS"
    assert effective.sources["fetch.max.bytes"] == f"file {file}"
    assert effective.sources["node.id"] == "default"
    assert config.origin_of("num.partitions") is ConfigSource.STATIC_BROKER


def test_without_any_source_the_defaults_apply() -> None:
    assert load({}, {}, None) == Effective(BrokerConfig(), dict.fromkeys(settings_of(BrokerConfig), "default"))


def test_a_file_may_nest_its_names_or_quote_them(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        "headwater.flush" = "interval"
        headwater.log.level = "debug"
        delete.topic.enable = false
        [log]
        dir = "/data"
        "retention.hours" = 1
        cleaner.min.cleanable.ratio = 0.25
        cleanup.policy = ["compact", "delete"]
        """,
    )
    config = load({}, {}, file).config
    assert (config.headwater_flush, config.headwater_log_level, config.log_dir) == ("interval", "debug", "/data")
    assert (config.log_retention_hours, config.log_cleaner_min_cleanable_ratio) == (1, 0.25)
    assert config.delete_topic_enable is False
    assert config.log_cleanup_policy == {"compact", "delete"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"num.partitons" = 1', r"unknown broker setting 'num.partitons'; did you mean 'num.partitions'\?"),
        ("num.partitions = 0", r"num\.partitions: 0 is out of range \(1 to 10000\)"),
        ("num.partitions = 2020-01-01", r"num\.partitions: a date is not a value"),
        ('num.partitions = 1\n"num.partitions" = 1', r"num\.partitions is set twice"),
        ("num.partitions = ", "not TOML"),
        ('headwater.flush = "os"\nheadwater.flush.interval.ms = 5', "names with dots can be quoted"),
        ("x = " + "[" * 100_000, "not TOML"),
        ("#" * 1_048_577, "more than 1048576 bytes"),
    ],
)
def test_an_error_in_a_file_names_the_file(tmp_path: Path, text: str, problem: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=problem) as refused:
        load({}, {}, file)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not TOML"):
        load({}, {}, file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load({}, {}, tmp_path / "absent.toml")


def test_an_error_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^environment HEADWATER_NODE_ID: node\.id: 'one' is not a whole number$"):
        load({}, {"HEADWATER_NODE_ID": "one"}, None)
    with pytest.raises(ConfigError, match=r"HEADWATER_LOG_DIRR; did you mean HEADWATER_LOG_DIR\?"):
        load({}, {"HEADWATER_LOG_DIRR": "x"}, None)
    with pytest.raises(ConfigError, match=r"unknown environment variable HEADWATER_ZZZZ$"):
        load({}, {"HEADWATER_ZZZZ": "x"}, None)


def test_an_error_on_the_command_line_says_so() -> None:
    with pytest.raises(ConfigError, match=r"^command line: listeners: 'nowhere' is not of the form"):
        load({"listeners": "nowhere"}, {}, None)


def test_environment_variables_of_other_commands_are_ignored() -> None:
    assert load({}, {"HEADWATER_CONFIG": "x", "HEADWATER_BOOTSTRAP": "y"}, None).config == BrokerConfig()


def test_the_file_comes_from_the_flag_then_the_environment_then_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"HEADWATER_CONFIG": "named.toml"}
    assert find_file(Path("chosen.toml"), named) == Path("chosen.toml")
    assert find_file(None, named) == Path("named.toml")
    assert find_file(None, {}) is None
    write(tmp_path, "")
    assert find_file(None, {}) == Path("headwater.toml")
