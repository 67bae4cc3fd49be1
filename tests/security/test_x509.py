"""Certificates are read within bounds: OpenSSL has verified who signed them, not what they say."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from headwater.security.distinguished_names import rfc2253_name
from headwater.security.x509 import MalformedCertificate, read_certificate
from tests.support.security.authority import TestAuthority


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def certificate(subject: bytes, validity: bytes | None = None) -> bytes:
    """The fields that are read, around which nothing is right."""
    times = der(0x17, b"200101000000Z") + der(0x17, b"400101000000Z") if validity is None else validity
    fields = der(2, b"\1") + der(0x30, b"") + der(0x30, b"") + der(0x30, times) + der(0x30, subject)
    return der(0x30, der(0x30, fields))


def attribute(oid: bytes, value: bytes = der(0x0C, b"ann")) -> bytes:
    return der(0x31, der(0x30, der(6, oid) + value))


COMMON_NAME = bytes((0x55, 4, 3))


def issued(directory: Path, name: x509.Name) -> bytes:
    file = TestAuthority(directory).issue("any", subject=name)
    loaded = x509.load_pem_x509_certificate(file.read_bytes())
    return loaded.public_bytes(Encoding.DER)


def test_a_real_certificate_is_read(tmp_path: Path) -> None:
    name = x509.Name(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, "Ann, of X")]
    )
    found = read_certificate(issued(tmp_path, name))

    assert rfc2253_name(found.subject) == "CN=Ann\\, of X,C=DE"
    expected = datetime.now(UTC) + timedelta(days=90)
    assert abs(found.not_after_s - expected.timestamp()) < 3600


def test_a_subject_with_many_names_is_read(tmp_path: Path) -> None:
    many = x509.Name([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u" * 64) for _ in range(500)])
    assert rfc2253_name(read_certificate(issued(tmp_path, many)).subject).count("OU=") == 500


@pytest.mark.parametrize("size", [129, 5_000, 100_000])
def test_an_object_identifier_of_many_bytes_is_refused_at_once(size: int) -> None:
    """Its numbers have no limit, and to compute and print them takes the square of their length."""
    endless = b"\xff" * (size - 1) + b"\x7f"
    with pytest.raises(MalformedCertificate, match="object identifier"):
        read_certificate(certificate(attribute(endless)))


@pytest.mark.parametrize(
    "validity",
    [
        b"",
        der(0x17, b"200101000000Z"),
        der(0x17, b"20010100000Z") * 2,
        der(0x17, b"209901000000Z") * 2,
        der(0x18, b"99999999999999Z") * 2,
        der(0x17, "\N{FULLWIDTH DIGIT TWO}00101000000Z".encode()) * 2,
        der(5, b"") * 2,
    ],
)
def test_a_validity_that_is_none_is_refused(validity: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        read_certificate(certificate(attribute(COMMON_NAME), validity))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_refused(content: bytes) -> None:
    for each in (content, certificate(content), certificate(attribute(content)), certificate(b"", content)):
        try:
            rfc2253_name(read_certificate(each).subject)
        except MalformedCertificate:
            continue


@given(st.data())
def test_a_certificate_with_wrong_bytes_is_a_certificate_or_refused(data: st.DataObject) -> None:
    whole = bytearray(certificate(attribute(COMMON_NAME) * 2))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        rfc2253_name(read_certificate(bytes(whole)).subject)
    except MalformedCertificate:
        return
