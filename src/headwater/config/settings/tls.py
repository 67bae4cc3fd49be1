"""Settings of the broker about TLS. All of them can be set for one listener alone, with `listener.name.<name>.`."""

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import INT, LIST, STRING, setting
from headwater.security.principal_mapping import DEFAULT, PrincipalMapping

CLIENT_AUTH_NONE, CLIENT_AUTH_REQUESTED, CLIENT_AUTH_REQUIRED = "none", "requested", "required"

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
SUITES_OF_TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
# By Kafka's names, with OpenSSL's: those with forward secrecy and authenticated encryption.
SUITES_OF_TLS_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
}

_PEM = "(Kafka's default is JKS, which is not there: `openssl pkcs12` turns a store into PEM.)"


@broker_settings_class
class TlsSettings(BrokerSettings):
    ssl_keystore_type: str = setting(
        STRING,
        "ssl.keystore.type",
        "PEM",
        f"The form of the listener's certificate and key. {_PEM}",
        allowed=("PEM",),
        dynamic=True,
        per_listener=True,
    )
    ssl_keystore_location: str | None = setting(
        STRING,
        "ssl.keystore.location",
        None,
        "A PEM file with the listener's certificate, its intermediate authorities, and its private key.",
        reload_only=True,
        per_listener=True,
    )
    ssl_keystore_key: str | None = setting(
        STRING,
        "ssl.keystore.key",
        None,
        "The listener's private key as PEM text, with ssl.keystore.certificate.chain instead of ssl.keystore.location.",
        reload_only=True,
        sensitive=True,
        per_listener=True,
        multiline=True,
    )
    ssl_keystore_certificate_chain: str | None = setting(
        STRING,
        "ssl.keystore.certificate.chain",
        None,
        "The listener's certificate, and its intermediate authorities, as PEM text.",
        reload_only=True,
        sensitive=True,
        per_listener=True,
        multiline=True,
    )
    headwater_tls_key_location: str | None = setting(
        STRING,
        "headwater.tls.key.location",
        None,
        "A PEM file with the private key, where ssl.keystore.location holds the certificate alone.",
        reload_only=True,
        per_listener=True,
    )
    ssl_key_password: str | None = setting(
        STRING,
        "ssl.key.password",
        None,
        "The password of the private key, if it is encrypted.",
        reload_only=True,
        sensitive=True,
        per_listener=True,
    )
    ssl_truststore_type: str = setting(
        STRING,
        "ssl.truststore.type",
        "PEM",
        f"The form of the authorities that clients' certificates come from. {_PEM}",
        allowed=("PEM",),
        dynamic=True,
        per_listener=True,
    )
    ssl_truststore_location: str | None = setting(
        STRING,
        "ssl.truststore.location",
        None,
        "A PEM file with the authorities whose certificates clients may show. If it contains revocation lists (X509 "
        "CRL), clients' certificates are checked against them, and each authority that issues some must have one.",
        reload_only=True,
        per_listener=True,
    )
    ssl_truststore_certificates: str | None = setting(
        STRING,
        "ssl.truststore.certificates",
        None,
        "The same as PEM text.",
        reload_only=True,
        sensitive=True,
        per_listener=True,
        multiline=True,
    )
    ssl_client_auth: str = setting(
        STRING,
        "ssl.client.auth",
        CLIENT_AUTH_NONE,
        "Whether clients show a certificate: none (they are not asked), requested (they need not, but one that is "
        "shown must be valid), required. On a SASL_SSL listener only listener.name.<name>.ssl.client.auth counts, as "
        "in Kafka.",
        allowed=(CLIENT_AUTH_NONE, CLIENT_AUTH_REQUESTED, CLIENT_AUTH_REQUIRED),
        dynamic=True,
        per_listener=True,
    )
    ssl_principal_mapping_rules: str = setting(
        STRING,
        "ssl.principal.mapping.rules",
        DEFAULT,
        "From the subject of a client's certificate to the name of its user: RULE:pattern/replacement/ with L or U "
        "behind it for small or capital letters, or DEFAULT for the subject itself, separated by commas; the first "
        "that matches counts, and a client that none matches is refused. Patterns are those of RE2.",
        check=PrincipalMapping.parse,
        dynamic=True,
        per_listener=True,
    )
    ssl_enabled_protocols: frozenset[str] = setting(
        LIST,
        "ssl.enabled.protocols",
        frozenset(PROTOCOLS),
        "The versions of TLS that clients may speak.",
        allowed=PROTOCOLS,
        dynamic=True,
        per_listener=True,
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        LIST,
        "ssl.cipher.suites",
        (),
        "The cipher suites that clients may use, best first; empty for all of these. Of the three of TLS 1.3 either "
        "all or none can be named.",
        allowed=(*SUITES_OF_TLS_1_3, *SUITES_OF_TLS_1_2),
        dynamic=True,
        per_listener=True,
    )
    headwater_tls_handshake_timeout_ms: int = setting(
        INT,
        "headwater.tls.handshake.timeout.ms",
        10_000,
        "How long a client may take for its TLS handshake. (Kafka has no limit but connections.max.idle.ms.)",
        minimum=1,
        dynamic=True,
        per_listener=True,
    )
    headwater_tls_handshakes_max: int = setting(
        INT,
        "headwater.tls.handshakes.max",
        256,
        "How many clients of a listener may be in their TLS handshake at once, which takes 44 KB each; one more, and "
        "the client that has taken longest is disconnected. (Kafka has no limit.)",
        minimum=1,
        maximum=65_536,
        dynamic=True,
        per_listener=True,
    )
