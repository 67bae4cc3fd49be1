"""Addresses: how they are written, and which of them clients are told."""

import pytest

from headwater.config.broker import BrokerConfig
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("PLAINTEXT://broker.example:0", "broker.example", 0),
        ("plaintext://[::1]:9092", "::1", 9092),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65_535),
        (":9092", "", 9092),
    ],
)
def test_addresses_are_read_in_every_usual_spelling(text: str, host: str, port: int) -> None:
    endpoint = Endpoint.parse(text)
    assert endpoint == (host, port)
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text", ["", "9092", "host", "host:", "host:70000", "::1:9092", "a b:1", "a:1,b:2", "x" * 300 + ":1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listeners: .* is not of the form HOST:PORT"):
        BrokerConfig.from_values({"listeners": text})


def test_a_protocol_that_is_not_there_yet_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="only PLAINTEXT"):
        BrokerConfig.from_values({"listeners": "SSL://127.0.0.1:9093"})


def test_clients_are_told_the_bound_address_unless_another_is_set() -> None:
    assert BrokerConfig().listener == ("127.0.0.1", 9092)
    assert BrokerConfig().advertised is None
    config = BrokerConfig.from_values({"listeners": "0.0.0.0:9092", "advertised.listeners": "broker.example:9092"})
    assert config.advertised == ("broker.example", 9092)
