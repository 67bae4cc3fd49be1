"""Broker address and security from a pipeline's environment become options of readers and writers."""

from pathlib import Path

import pytest

from headwater.errors import ConfigError
from headwater.spark import client_options
from headwater.spark.options.write_options import write_options


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADWATER_BOOTSTRAP", "HEADWATER_CLIENT_CONFIG", "HEADWATER_CLIENT_SET"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_is_the_broker_of_this_machine() -> None:
    assert client_options() == {"bootstrap.servers": "127.0.0.1:9092"}


def test_only_security_settings_are_taken_from_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nsecurity.protocol=SSL\nfetch.max.bytes=1000\n")
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", str(file))

    assert client_options() == {"bootstrap.servers": "a:1", "kafka.security.protocol": "SSL"}
    assert write_options(client_options(), is_streaming=True).broker_address.bootstrap_servers == "a:1"

    monkeypatch.setenv("HEADWATER_BOOTSTRAP", "b:2")
    assert client_options()["bootstrap.servers"] == "b:2"


def test_options_of_the_command_win_over_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.protocol=TLS\n")
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", str(file))
    monkeypatch.setenv("HEADWATER_CLIENT_SET", '{"ssl.protocol": "TLSv1.3"}')

    assert client_options() | {"bootstrap.servers": ""} == {
        "bootstrap.servers": "",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.protocol": "TLSv1.3",
    }


def test_a_missing_file_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", str(tmp_path / "none"))

    with pytest.raises(ConfigError, match="No such file"):
        client_options()
