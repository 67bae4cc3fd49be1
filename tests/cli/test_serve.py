"""`headwater serve` as a process: its output, stop and reload, and the errors that keep it from starting."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic  # pyright: ignore[reportPrivateImportUsage]

TIMEOUT_S = 30


class Serving:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._errors = process.stderr
        self.log = ""
        self.ready = process.stdout.readline()
        if not self.ready.startswith("ready "):
            raise AssertionError(self._errors.read())

    @property
    def bootstrap_servers(self) -> str:
        return self.ready.split()[1].removeprefix("kafka=")

    def wait_for_log(self, text: str) -> None:
        while text not in self.log:
            line = self._errors.readline()
            assert line, f"it ended without saying {text!r}: {self.log}"
            self.log += line

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.log += self._errors.read()
        return self.process.wait(TIMEOUT_S)


def environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")} | variables


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headwater.cli.main", "serve", *arguments]


@contextmanager
def starting(directory: Path, *arguments: str, **variables: str) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command("--kafka", "127.0.0.1:0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=environment(**variables),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(directory: Path, *arguments: str, **variables: str) -> Generator[Serving]:
    with starting(directory, *arguments, **variables) as process:
        yield Serving(process)


def refused(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, cwd=directory, env=environment()
    )
    assert ended.returncode == 1
    return ended


def setting(bootstrap_servers: str, name: str) -> str | None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    return described.result(TIMEOUT_S)[name].value


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_address_and_stops_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as broker:
        assert broker.ready == f"ready kafka={broker.bootstrap_servers} data={tmp_path / 'headwater-data'}\n"
        assert broker.end(number) == 0
        assert "stopped cleanly" in broker.log
        assert (tmp_path / "headwater-data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_recovery_ends_the_process_at_once_and_the_next_start_recovers(
    tmp_path: Path, number: signal.Signals
) -> None:
    with serving(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        (created,) = admin.create_topics([NewTopic("letters", 2)]).values()
        created.result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for partition in (0, 1):
            producer.produce("letters", b"a letter", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        broker.process.kill()
    # Recovery opens these files, and waits for as long as nobody else does.
    files = [tmp_path / "headwater-data" / f"letters-{partition}" / "leader-epoch-checkpoint" for partition in (0, 1)]
    kept = [file.rename(tmp_path / f"kept-{number}") for number, file in enumerate(files)]
    for file in files:
        os.mkfifo(file)

    # The first file opens when recovery has come there; it still waits for the other one.
    with starting(tmp_path) as recovering, files[0].open("wb"):
        recovering.send_signal(number)
        output, log = recovering.communicate(timeout=TIMEOUT_S)

    assert recovering.returncode == 0
    assert output == ""
    assert "stopped during recovery, which the next start begins again" in log
    assert "Traceback" not in log
    for file, original in zip(files, kept, strict=True):
        original.replace(file)
    with serving(tmp_path) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "log_level": 0})
        consumer.assign([TopicPartition("letters", partition, 0) for partition in (0, 1)])
        found = consumer.consume(2, TIMEOUT_S)
        consumer.close()
        assert broker.end(signal.SIGTERM) == 0
        assert "partitions were recovered" in broker.log
    assert sorted((message.partition(), message.value()) for message in found) == [(0, b"a letter"), (1, b"a letter")]


def test_a_second_broker_on_the_same_directory_is_refused_with_advice(tmp_path: Path) -> None:
    with serving(tmp_path):
        second = refused(tmp_path, "--kafka", "127.0.0.1:0")

    assert second.stdout == ""
    assert "in use by another process" in second.stderr
    assert "--data-dir" in second.stderr


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        second = refused(tmp_path, "--kafka", broker.bootstrap_servers, "--data-dir", "other")

    assert "in use" in second.stderr


def test_a_wrong_setting_is_one_line_and_not_a_traceback(tmp_path: Path) -> None:
    wrong = refused(tmp_path, "--set", "log.retention.hour=1")

    assert wrong.stderr.startswith("error: ")
    assert "log.retention.hours" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_a_reload_applies_dynamic_settings_and_names_static_ones(tmp_path: Path) -> None:
    settings = tmp_path / "headwater.toml"
    settings.write_text('num.partitions = 5\n"broker.rack" = "a"\n')
    with serving(tmp_path) as broker:
        assert setting(broker.bootstrap_servers, "num.partitions") == "5"
        settings.write_text('num.partitions = 7\n"broker.rack" = "b"\n')
        broker.process.send_signal(signal.SIGHUP)
        broker.wait_for_log("settings are reloaded")

        assert setting(broker.bootstrap_servers, "num.partitions") == "7"
        assert setting(broker.bootstrap_servers, "broker.rack") == "a"
        assert "broker.rack changed, which takes effect only after a restart" in broker.log


def test_a_reload_of_wrong_settings_changes_nothing(tmp_path: Path) -> None:
    settings = tmp_path / "headwater.toml"
    settings.write_text("num.partitions = 5\n")
    with serving(tmp_path) as broker:
        settings.write_text("num.partitions = -5\n")
        broker.process.send_signal(signal.SIGHUP)
        broker.wait_for_log("settings are not reloaded")

        assert setting(broker.bootstrap_servers, "num.partitions") == "5"


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text("num.partitions = 5\nlog.retention.hours = 5\nlog.segment.bytes = 50000\n")
    flags = ("--set", "num.partitions=7")
    variables = {"HEADWATER_NUM_PARTITIONS": "6", "HEADWATER_LOG_RETENTION_HOURS": "6"}
    with serving(tmp_path, *flags, **variables) as broker:
        assert setting(broker.bootstrap_servers, "num.partitions") == "7"
        assert setting(broker.bootstrap_servers, "log.retention.hours") == "6"
        assert setting(broker.bootstrap_servers, "log.segment.bytes") == "50000"


def test_a_log_level_that_is_changed_through_the_protocol_takes_effect_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--set", "headwater.log.level=error") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        level = ConfigEntry("headwater.log.level", "info", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[level])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        altered.result(TIMEOUT_S)
        (created,) = admin.create_topics([NewTopic("loud", 1)]).values()
        created.result(TIMEOUT_S)
        broker.wait_for_log("created topic loud")
