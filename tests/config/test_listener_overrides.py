"""`listener.name.<name>.<setting>`: what one listener sets of its own, from every source of settings."""

from pathlib import Path

import pytest

from headwater.config.broker import BrokerConfig, describe
from headwater.config.declaration import ConfigSource, SettingType
from headwater.config.loader import load
from headwater.errors import ConfigError

LISTENERS = "INTERNAL://127.0.0.1:9092,A.B-C_D://127.0.0.1:9093"
TWO_LISTENERS = {
    "listeners": LISTENERS,
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,A.B-C_D:PLAINTEXT",
}
REAUTHENTICATION = "connections.max.reauth.ms"
PLAIN_USERS = "listener.name.internal.plain.sasl.jaas.config"
JAAS = 'PlainLoginModule required user_ann="planted secret";'


def config_of(**values: str) -> BrokerConfig:
    return BrokerConfig.from_values({**TWO_LISTENERS, **values})


def test_a_listener_has_its_own_value_and_the_others_the_brokers() -> None:
    config = config_of(**{REAUTHENTICATION: "1", f"listener.name.internal.{REAUTHENTICATION}": "2"})

    assert config.connections_max_reauth_ms == 1
    assert config.of_listener("INTERNAL").connections_max_reauth_ms == 2
    assert config.of_listener("A.B-C_D") is config


def test_the_name_of_a_listener_may_hold_dots_and_capitals() -> None:
    config = config_of(**{"listener.name.A.b-c_D.sasl.enabled.mechanisms": "PLAIN"})

    assert config.of_listener("A.B-C_D").sasl_enabled_mechanisms == ("PLAIN",)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("listener.name.internal.num.partitions", "3", "with one of the settings that a listener may have of its own"),
        ("listener.name.connections.max.reauth.ms", "3", "with one of the settings"),
        ("listener.name..connections.max.reauth.ms", "3", "with one of the settings"),
        (
            f"listener.name.internal.{REAUTHENTICATION}",
            "-1",
            rf"^listener\.name\.internal\.{REAUTHENTICATION}: -1",
        ),
        (f"listener.name.other.{REAUTHENTICATION}", "1", r"there is no listener OTHER \(listeners\)"),
    ],
)
def test_a_wrong_override_is_refused_by_its_whole_name(name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config_of(**{name: value})


def test_an_override_comes_from_file_environment_and_command_line(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text(f'[listener.name.internal]\n"{REAUTHENTICATION}" = 1\n"sasl.enabled.mechanisms" = ["PLAIN"]\n')
    environment = {
        "HEADWATER_LISTENERS": LISTENERS,
        "HEADWATER_LISTENER_NAME_INTERNAL_CONNECTIONS_MAX_REAUTH_MS": "2",
    }
    flags = {**TWO_LISTENERS, f"listener.name.internal.{REAUTHENTICATION}": "3"}

    effective = load(flags, environment, file)

    internal = effective.config.of_listener("INTERNAL")
    assert (internal.connections_max_reauth_ms, internal.sasl_enabled_mechanisms) == (3, ("PLAIN",))
    assert effective.sources[f"listener.name.internal.{REAUTHENTICATION}"] == "command line"
    assert effective.sources["listener.name.internal.sasl.enabled.mechanisms"] == f"file {file}"


def test_overrides_are_described_after_the_settings_of_the_broker() -> None:
    config = config_of(**{f"listener.name.internal.{REAUTHENTICATION}": "2", PLAIN_USERS: JAAS})

    reauthentication, users = describe(config)[-2:]

    assert (reauthentication.name, reauthentication.value) == (f"listener.name.internal.{REAUTHENTICATION}", "2")
    assert reauthentication.source is ConfigSource.STATIC_BROKER
    assert not reauthentication.read_only
    assert (users.name, users.value, users.sensitive) == (PLAIN_USERS, None, True)
    assert users.type is SettingType.STRING


def test_a_reload_takes_over_live_overrides_and_names_the_others() -> None:
    config = config_of(**{"listener.name.internal.sasl.enabled.mechanisms": "PLAIN"})
    fresh = config_of(
        **{
            "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"listener.name.internal.{REAUTHENTICATION}": "2",
        }
    )

    reloaded, waiting = config.reloaded(fresh)

    internal = reloaded.of_listener("INTERNAL")
    assert (internal.connections_max_reauth_ms, internal.sasl_enabled_mechanisms) == (2, ("PLAIN",))
    assert waiting == ("listener.name.internal.sasl.enabled.mechanisms",)


def test_only_a_live_override_is_changed_through_the_protocol() -> None:
    config = config_of()

    changed = config.changed({f"listener.name.internal.{REAUTHENTICATION}": "2"})

    assert changed.of_listener("INTERNAL").connections_max_reauth_ms == 2
    with pytest.raises(ConfigError, match="can only be set when the broker starts"):
        config.changed({PLAIN_USERS: JAAS})


def test_a_secret_stands_in_no_repr_and_no_refusal() -> None:
    config = config_of(**{"plain.sasl.jaas.config": JAAS, PLAIN_USERS: JAAS})

    assert "planted" not in repr(config)
    for wrong in (JAAS.removesuffix(";"), JAAS + "\0"):
        with pytest.raises(ConfigError, match=PLAIN_USERS) as refused:
            config_of(**{PLAIN_USERS: wrong})
        assert "planted" not in str(refused.value)
