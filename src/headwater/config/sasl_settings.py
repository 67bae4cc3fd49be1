"""Settings of the broker about SASL: how clients prove who they are."""

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import LIST, LONG, STRING, setting
from headwater.security.jaas import parse_jaas

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")


@broker_settings_class
class SaslSettings(BrokerSettings):
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST,
        "sasl.enabled.mechanisms",
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The mechanisms by which clients of SASL listeners authenticate. (Kafka's default is GSSAPI, which is not "
        "there.)",
        allowed=MECHANISMS,
        per_listener=True,
    )
    connections_max_reauth_ms: int = setting(
        LONG,
        "connections.max.reauth.ms",
        0,
        "How long an authentication is valid: a client that has not authenticated again by then is disconnected "
        "(KIP-368); 0 is for ever.",
        minimum=0,
        dynamic=True,
        per_listener=True,
    )
    plain_sasl_jaas_config: str | None = setting(
        STRING,
        "plain.sasl.jaas.config",
        None,
        'Users of PLAIN beside those of the catalog, as `PlainLoginModule required user_NAME="PASSWORD";`. Their '
        "passwords are here in plain text: prefer `headwater user add`.",
        check=parse_jaas,
        sensitive=True,
        per_listener=True,
    )
