"""A broker takes a new certificate without a restart: new connections see it, and those that are there stay."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.security.clients import TIMEOUT_S, Confluent, is_let_in
from tests.support.security.logins import SASL_SSL, SCRAM_512, SSL
from tests.support.security.raw_sasl import RawSasl
from tests.support.security.secured_broker import SecuredBroker

RELOADED = ("listener SSL is loaded again", "listener SASL_SSL is loaded again")


def serial_number(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def shown_to(client: RawSasl) -> int:
    """The serial number of the certificate that the broker showed to the client."""
    assert isinstance(client.socket, ssl.SSLSocket)
    certificate = client.socket.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def is_served(client: RawSasl) -> bool:
    return client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def by_signal(broker: SecuredBroker) -> None:
    broker.process.reload()


def by_itself(_: SecuredBroker) -> None:
    """The broker looks at the files about once a second."""


@pytest.mark.parametrize("notice", [by_signal, by_itself])
def test_new_connections_see_the_new_certificate_and_old_ones_stay(
    broker: SecuredBroker, topic: str, notice: Callable[[SecuredBroker], None]
) -> None:
    before = {line: broker.process.log.count(line) for line in RELOADED}
    old = serial_number(broker.server_certificate)
    producer = Confluent(broker.login(SASL_SSL, SCRAM_512))._producer()
    acknowledged: list[object] = []
    with RawSasl(broker.login(SSL)) as there:
        producer.produce(topic, b"1", on_delivery=lambda error, _: acknowledged.append(error))
        assert producer.flush(TIMEOUT_S) == 0

        renewed = broker.authority.issue_server("renewed")
        new = serial_number(renewed)
        os.replace(renewed, broker.server_certificate)  # noqa: PTH105 (as `mv` does)
        notice(broker)
        for line, count in before.items():
            broker.wait_for_log(line, count + 1)

        with RawSasl(broker.login(SSL)) as late:
            assert shown_to(late) == new
        assert is_let_in("confluent", broker.login(SSL))
        assert shown_to(there) == old
        assert is_served(there)
    producer.produce(topic, b"2", on_delivery=lambda error, _: acknowledged.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert acknowledged == [None, None]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no PEM at all", "this is not PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "there is no private key in it"),
        (b"", "this is not PEM"),
    ],
    ids=["text", "certificate alone", "empty"],
)
def test_a_file_that_cannot_be_used_leaves_the_old_certificate(
    broker: SecuredBroker, content: bytes, complaint: str
) -> None:
    good = broker.server_certificate.read_bytes()
    complaint = f"{broker.server_certificate}: {complaint}"
    refused = broker.process.log.count(complaint)
    try:
        broker.server_certificate.write_bytes(content)
        broker.process.reload()
        broker.wait_for_log(complaint, refused + 1)

        with RawSasl(broker.login(SSL)) as client:
            assert shown_to(client) == x509.load_pem_x509_certificate(good).serial_number
            assert is_served(client)
    finally:
        before = broker.process.log.count(RELOADED[0])
        broker.server_certificate.write_bytes(good)
        broker.process.reload()
        broker.wait_for_log(RELOADED[0], before + 1)
    assert good.splitlines()[1].decode() not in broker.process.log, "a key has no place in a log"
