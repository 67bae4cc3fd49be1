"""Listeners: their names, protocols and addresses, as Kafka's settings write them."""

import pytest

from headwater.config.broker import BrokerConfig
from headwater.config.listeners import SecurityProtocol
from headwater.errors import ConfigError

BOTH_PLAIN = "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"
INSECURE = {"headwater.insecure.listeners.allow": "true"}


@pytest.mark.parametrize("text", ["", "9092", "host", "host:", "host:70000", "::1:9092", "a b:1", "x" * 300 + ":1"])
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listeners: .* is not of the form HOST:PORT"):
        BrokerConfig.from_values({"listeners": text})


def test_an_address_without_a_name_is_a_plaintext_listener_without_an_advertised_address() -> None:
    (listener,) = BrokerConfig.from_values({"listeners": "127.0.0.1:9092"}).listener_addresses
    assert listener == ("PLAINTEXT", SecurityProtocol.PLAINTEXT, ("127.0.0.1", 9092), None)
    assert BrokerConfig().listener_addresses == [listener]


def test_an_advertised_address_is_kept_beside_the_bound_one() -> None:
    config = BrokerConfig.from_values(
        {"listeners": "0.0.0.0:9092", "advertised.listeners": "broker.example:9092", **INSECURE}
    )
    (listener,) = config.listener_addresses
    assert listener.bound == ("0.0.0.0", 9092)
    assert listener.advertised == ("broker.example", 9092)


def test_several_listeners_have_names_protocols_and_addresses_of_their_own() -> None:
    config = BrokerConfig.from_values(
        {
            "listeners": "internal://127.0.0.1:9092, EXTERNAL://0.0.0.0:9093",
            "advertised.listeners": "EXTERNAL://broker.example:443",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:plaintext",
            **INSECURE,
        }
    )
    assert config.listener_addresses == [
        ("INTERNAL", SecurityProtocol.PLAINTEXT, ("127.0.0.1", 9092), None),
        ("EXTERNAL", SecurityProtocol.PLAINTEXT, ("0.0.0.0", 9093), ("broker.example", 443)),
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"listeners": "A://127.0.0.1:1"}, "A has no protocol in listener.security.protocol.map"),
        ({"listeners": "127.0.0.1:1,127.0.0.1:2"}, "listener PLAINTEXT is named twice"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "'PLAINTEXT' is not of the form NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "asks for the protocol 'TLS'; there are PLAINTEXT, SSL"),
        ({"listener.security.protocol.map": "A:SSL,a:SSL"}, "listener A is given a protocol twice"),
        ({"advertised.listeners": "OTHER://127.0.0.1:1"}, "advertised.listeners: there is no listener OTHER"),
        ({"listeners": "0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0:9092; set advertised.listeners"),
        ({"advertised.listeners": "0.0.0.0:9092"}, "advertised.listeners: clients cannot connect to 0.0.0.0:9092"),
        ({"advertised.listeners": "broker.example:0"}, "advertised.listeners: clients cannot connect to"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,A://127.0.0.2:1", "listener.security.protocol.map": BOTH_PLAIN},
            "PLAINTEXT and A have the same port 1",
        ),
        ({"inter.broker.listener.name": "A"}, "inter.broker.listener.name: there is no listener A"),
        ({"security.inter.broker.protocol": "SSL"}, "security.inter.broker.protocol: there is no listener SSL"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "only one of them can be set",
        ),
    ],
)
def test_listeners_that_cannot_be_served_are_refused_by_name(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig.from_values(settings)


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    config = BrokerConfig.from_values(
        {"listeners": "PLAINTEXT://127.0.0.1:9092,A://[::1]:9092", "listener.security.protocol.map": BOTH_PLAIN}
    )
    assert [listener.bound.port for listener in config.listener_addresses] == [9092, 9092]


PUBLIC = {"advertised.listeners": "broker.example:1"}


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "[::]", "192.0.2.1", "", "broker.example", "127.evil.example", "128.0.0.1"]
)
def test_a_listener_that_lets_anyone_in_from_other_machines_is_refused(host: str) -> None:
    with pytest.raises(
        ConfigError, match=r"PLAINTEXT listens on .*, which other machines .* \(SASL_SSL, or SSL with"
    ) as no:
        BrokerConfig.from_values({"listeners": f"{host}:1", **PUBLIC})
    assert "headwater.insecure.listeners.allow=true" in str(no.value)

    BrokerConfig.from_values({"listeners": f"{host}:1", **PUBLIC, **INSECURE})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_a_listener_of_this_machine_alone_needs_no_authentication(host: str) -> None:
    BrokerConfig.from_values({"listeners": f"{host}:1", **PUBLIC})


def test_tls_authenticates_clients_only_if_they_have_to_show_a_certificate() -> None:
    public = {"listeners": "SSL://0.0.0.0:1", "advertised.listeners": "SSL://broker.example:1"}
    for client_auth in ("none", "requested"):
        with pytest.raises(ConfigError, match=r"need not authenticate \(SSL\)"):
            BrokerConfig.from_values({**public, "ssl.client.auth": client_auth})
    BrokerConfig.from_values({**public, "ssl.client.auth": "required"})
    BrokerConfig.from_values({**public, "listener.name.ssl.ssl.client.auth": "required"})


def test_the_listener_of_other_brokers_is_named_or_picked_by_its_protocol() -> None:
    BrokerConfig.from_values({"inter.broker.listener.name": "PLAINTEXT"})
    BrokerConfig.from_values({"security.inter.broker.protocol": "PLAINTEXT"})
