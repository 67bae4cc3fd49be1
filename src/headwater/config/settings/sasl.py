"""Settings of the broker about authentication: SASL, users, and delegation tokens."""

from urllib.parse import urlsplit

from headwater.config.broker_settings import NO_EFFECT, BrokerSettings, broker_settings_class
from headwater.config.declaration import INT, LIST, LONG, STRING, setting
from headwater.errors import ConfigError
from headwater.security.jaas import parse_jaas
from headwater.security.mechanisms import MECHANISMS, SCRAM_SHA_256, SCRAM_SHA_512


def _check_keys_url(text: str) -> None:
    """Only of these two is it certain who wrote what is read there."""
    try:
        url = urlsplit(text)
        is_sure = bool(url.hostname) and url.port != 0 if url.scheme == "https" else url[:2] == ("file", "")
    except ValueError:
        url, is_sure = None, False
    if not (is_sure and url and url.path):
        raise ConfigError("neither https://HOST/PATH nor file:///PATH")


@broker_settings_class
class SaslSettings(BrokerSettings):
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST,
        "sasl.enabled.mechanisms",
        (SCRAM_SHA_256, SCRAM_SHA_512),
        "The mechanisms by which clients of SASL listeners authenticate. (Kafka's default is GSSAPI, which is not "
        "there.)",
        allowed=MECHANISMS,
        per_listener=True,
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        STRING,
        "sasl.mechanism.inter.broker.protocol",
        SCRAM_SHA_512,
        f"The mechanism by which brokers authenticate to each other. {NO_EFFECT}",
        allowed=MECHANISMS,
    )
    sasl_server_max_receive_size: int = setting(
        INT,
        "sasl.server.max.receive.size",
        524_288,
        "The largest message of a SASL exchange.",
        minimum=1024,
        dynamic=True,
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
    connection_failed_authentication_delay_ms: int = setting(
        INT,
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a failed authentication waits, which slows down guessing.",
        minimum=0,
        maximum=60_000,
        dynamic=True,
    )
    headwater_authentication_timeout_ms: int = setting(
        INT,
        "headwater.authentication.timeout.ms",
        30_000,
        "How long a new connection may take to authenticate before it is closed.",
        minimum=1,
        dynamic=True,
    )
    headwater_connections_unauthenticated_max_per_ip: int = setting(
        INT,
        "headwater.connections.unauthenticated.max.per.ip",
        250,
        "How many connections of one address may be authenticating at once; a further one is closed.",
        minimum=1,
        dynamic=True,
    )
    headwater_password_threads: int = setting(
        INT,
        "headwater.password.threads",
        1,
        "How many passwords (PLAIN) are verified at once; the others wait.",
        minimum=1,
        maximum=64,
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

    # OAUTHBEARER
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        STRING,
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        "Where the public keys of the issuer of tokens are (JWKS): an https: or file: URL.",
        check=_check_keys_url,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        LONG,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        "How often the keys are read again. An unknown key id makes that happen earlier.",
        minimum=1000,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        LONG,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "The wait before keys that could not be read are read again; it doubles with every failure.",
        minimum=1,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        LONG,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        "The longest of these waits.",
        minimum=1,
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        STRING,
        "sasl.oauthbearer.expected.issuer",
        None,
        "The issuer that a token must name (iss); unset accepts every issuer whose keys are there.",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        LIST,
        "sasl.oauthbearer.expected.audience",
        (),
        "The audiences of which a token must name one (aud); empty accepts every token.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        INT,
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clocks of issuer and broker may be apart.",
        minimum=0,
        maximum=86_400,
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        STRING,
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim of a token that becomes the name of the user.",
        pattern=".+",
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        STRING,
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        "The claim of a token that has its scopes.",
        pattern=".+",
    )

    # Delegation tokens
    delegation_token_secret_key: str | None = setting(
        STRING,
        "delegation.token.secret.key",
        None,
        "The secret that delegation tokens are made with; without it there are none. A new secret ends all of them.",
        pattern=".+",
        sensitive=True,
    )
    delegation_token_max_lifetime_ms: int = setting(
        LONG,
        "delegation.token.max.lifetime.ms",
        604_800_000,
        "How long a delegation token can live, however often it is renewed.",
        minimum=1,
    )
    delegation_token_expiry_time_ms: int = setting(
        LONG,
        "delegation.token.expiry.time.ms",
        86_400_000,
        "How long a delegation token lives before it has to be renewed.",
        minimum=1,
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        LONG,
        "delegation.token.expiry.check.interval.ms",
        3_600_000,
        "Accepted for compatibility: an expired token is refused at once, and removed when the next one is created.",
        minimum=1,
    )
    headwater_delegation_tokens_max: int = setting(
        INT,
        "headwater.delegation.tokens.max",
        10_000,
        "How many delegation tokens the broker holds before it refuses to create more.",
        minimum=1,
        dynamic=True,
    )

    # Users
    headwater_users_max: int = setting(
        INT,
        "headwater.users.max",
        10_000,
        "How many users the broker holds before it refuses to create more.",
        minimum=1,
        dynamic=True,
    )
    headwater_admin_password_file: str | None = setting(
        STRING,
        "headwater.admin.password.file",
        None,
        "A file with a password: a broker that has no user yet creates the user `admin` with it, who may do "
        "everything.",
        pattern=".+",
    )
