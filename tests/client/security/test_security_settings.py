import ssl

import pytest

from headwater.client.security.sasl import Credentials
from headwater.client.security.security import PLAINTEXT, Security, read_security
from headwater.client.security.tls import Pem, Tls
from headwater.errors import ConfigError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SSL = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
ANN = {"sasl.username": "ann", "sasl.password": "secret"}


def tls(settings: dict[str, str]) -> Tls:
    found = read_security({**SSL, **settings}).tls
    assert found is not None
    return found


def test_settings_that_are_not_about_security_are_left_alone() -> None:
    assert read_security({"fetch.max.bytes": "1", "max.poll.records": "2", "key.deserializer": "x"}) is PLAINTEXT


def test_plaintext_may_be_chosen_explicitly() -> None:
    assert read_security({"security.protocol": "plaintext"}) == PLAINTEXT


def test_tls_trusts_the_operating_system_and_checks_the_host_by_default() -> None:
    found = tls({})

    assert found == Tls()
    assert found.is_host_checked
    assert found.version_min == ssl.TLSVersion.TLSv1_2


def test_tls_settings_with_the_names_of_librdkafka() -> None:
    found = tls(
        {
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "me.pem",
            "ssl.key.location": "me.key",
            "ssl.key.password": "secret",
        }
    )

    assert found.trusted == Pem("ssl.ca.location", file="ca.pem")
    assert found.certificate == Pem("ssl.certificate.location", file="me.pem")
    assert found.key == Pem("ssl.key.location", file="me.key")
    assert found.key_password == "secret"


def test_tls_settings_with_the_names_of_java_and_files() -> None:
    found = tls(
        {
            "ssl.truststore.type": "pem",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "me.pem",
        }
    )

    assert found.trusted == Pem("ssl.truststore.location", file="ca.pem")
    assert (found.certificate, found.key) == (Pem("ssl.keystore.location", file="me.pem"), None)


def test_tls_settings_with_the_names_of_java_and_pem_text() -> None:
    found = tls(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "CA",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.keystore.key": "KEY",
        }
    )

    assert found.trusted == Pem("ssl.truststore.certificates", text="CA")
    assert found.certificate == Pem("ssl.keystore.certificate.chain", text="CHAIN")
    assert found.key == Pem("ssl.keystore.key", text="KEY")
    assert "KEY" not in repr(found)


@pytest.mark.parametrize(("text", "is_checked"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_the_host_name_check_can_be_switched_off(text: str, is_checked: bool) -> None:
    assert tls({"ssl.endpoint.identification.algorithm": text}).is_host_checked is is_checked


def test_versions_of_tls_can_be_chosen() -> None:
    found = tls({"ssl.enabled.protocols": "TLSv1.2", "ssl.protocol": "TLSv1.3"})
    assert (found.version_min, found.version_max) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_names_and_passwords(name: str) -> None:
    settings = {"security.protocol": "sasl_ssl", name: "scram-sha-512", **ANN}
    assert read_security(settings) == Security(Tls(), Credentials("SCRAM-SHA-512", "ann", "secret"))


@pytest.mark.parametrize(("module", "mechanism"), [("Plain", "PLAIN"), ("Scram", "SCRAM-SHA-256")])
def test_names_and_passwords_in_a_java_jaas_setting(module: str, mechanism: str) -> None:
    text = f'org.example.{module}LoginModule required username="ann" password="secret";'
    settings = {**SASL, "sasl.mechanism": mechanism, "sasl.jaas.config": text}
    assert read_security(settings).credentials == Credentials(mechanism, "ann", "secret")


def test_a_delegation_token_in_a_java_jaas_setting() -> None:
    text = f'{SCRAM} required username="id" password="secret" tokenauth="true";'
    settings = {**SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": text}
    assert read_security(settings).credentials == Credentials("SCRAM-SHA-512", "id", "secret", is_token=True)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of PLAINTEXT, SSL, .* not 'TLS'"),
        ({"security.providers": "x"}, "'security.providers' is not known"),
        ({**SSL, "ssl.ca.locations": "x"}, "'ssl.ca.locations' is not known.*did you mean 'ssl.ca.location'"),
        ({**SSL, "ssl.cipher.suites": "x"}, "'ssl.cipher.suites' is not known"),
        ({**SASL, **ANN, "sasl.kerberos.service.name": "x"}, "'sasl.kerberos.service.name' is not known"),
        ({"ssl.ca.location": "x"}, "ssl.ca.location has no use with security.protocol=PLAINTEXT.*SSL or SASL_SSL"),
        ({**SASL, **ANN, "ssl.ca.location": "x"}, "ssl.ca.location has no use with security.protocol=SASL_PLAINTEXT"),
        ({**SSL, **ANN}, "sasl.password has no use with security.protocol=SSL.*SASL_SSL or SASL_PLAINTEXT"),
        ({**SSL, "ssl.ca.location": "x", "ssl.truststore.location": "y"}, "say the same thing"),
        ({**SSL, "ssl.ca.location": ""}, "ssl.ca.location is empty"),
        ({**SSL, "ssl.truststore.location": "x.jks"}, "ssl.truststore.type must be PEM, which is not the default"),
        ({**SSL, "ssl.truststore.location": "x", "ssl.truststore.type": "JKS"}, "must be PEM, not 'JKS'"),
        ({**SSL, "ssl.truststore.type": "PEM"}, "ssl.truststore.location is missing"),
        ({**SSL, "ssl.truststore.password": "secret"}, "ssl.truststore.password has no meaning for PEM"),
        ({**SSL, "ssl.key.location": "x"}, "ssl.key.location is given without ssl.certificate.location"),
        (
            {**SSL, "ssl.keystore.type": "PEM", "ssl.keystore.key": "secret"},
            "ssl.keystore.key is given without ssl.keystore.certificate.chain",
        ),
        (
            {**SSL, "ssl.keystore.certificate.chain": "x"},
            "ssl.keystore.certificate.chain is given without ssl.keystore.key",
        ),
        ({**SSL, "ssl.key.password": "secret"}, "ssl.key.password is given, and no key"),
        ({**SSL, "ssl.endpoint.identification.algorithm": "ldaps"}, "is https, or empty .* not 'ldaps'"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.2,TLSv1.1"}, "TLSv1.2, TLSv1.3, not 'TLSv1.1'"),
        ({**SSL, "ssl.protocol": "SSLv3"}, "ssl.protocol is one of .* not 'SSLv3'"),
        ({"security.protocol": "SASL_SSL", **ANN}, "sasl.mechanism is missing: one of PLAIN"),
        ({**SASL, **ANN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is one of .* not 'GSSAPI'"),
        ({**SASL, **ANN, "sasl.mechanism": "OAUTHBEARER"}, "sasl.password has no use with sasl.mechanism=OAUTHBEARER"),
        ({**SASL, **ANN, "sasl.mechanisms": "PLAIN"}, "sasl.mechanism and sasl.mechanisms say the same"),
        ({**SASL, "sasl.username": "ann"}, "sasl.password is missing"),
        ({**SASL, "sasl.password": "secret"}, "sasl.username is missing"),
        ({**SASL, **ANN, "sasl.jaas.config": "x"}, "sasl.jaas.config and sasl.username say the same"),
        ({**SASL, "sasl.jaas.config": "Other required password=secret;"}, "one of PlainLoginModule.* not 'Other'"),
        ({**SASL, "sasl.jaas.config": f"{SCRAM} required password=secret;"}, "is not for sasl.mechanism=PLAIN"),
        (
            {**SASL, "sasl.jaas.config": "PlainLoginModule required password=secret tokenauth=true;"},
            "the option 'tokenauth' is not known",
        ),
        (
            {
                **SASL,
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{SCRAM} required username=ann password=secret tokenauth=maybe;",
            },
            "the option tokenauth is true or false",
        ),
        ({**SASL, "sasl.jaas.config": "PlainLoginModule required password=secret;"}, "the option username is missing"),
        ({**SASL, "sasl.username": "a\0b", "sasl.password": "secret"}, "the name .* cannot be sent"),
        ({**SASL, "sasl.username": "ann", "sasl.password": "secret\udcff"}, "the password .* cannot be sent"),
    ],
)
def test_unknown_and_contradictory_settings_are_refused_by_name(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        read_security(settings)
    assert "secret" not in str(raised.value)
