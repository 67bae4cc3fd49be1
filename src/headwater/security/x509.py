"""The fields of an X.509 certificate that a broker decides by, read from its DER bytes (RFC 5280).

OpenSSL verifies certificates; this only reads what Python's `ssl` leaves out or changes: the subject with the types of
its strings, and the validity of the broker's own certificate.
"""

from datetime import UTC, datetime
from typing import NamedTuple

SEQUENCE, SET = 0x30, 0x31
_OBJECT_IDENTIFIER = 0x06
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_VERSION = 0xA0
_LENGTH_BYTES_MAX = 4
# To compute and print longer ones would take the square of their length, and Python refuses numbers of 4,300 digits.
_OID_BYTES_MAX = 100


class MalformedCertificate(ValueError):
    pass


class Attribute(NamedTuple):
    """One type and value of a name. `encoded` is the whole value in DER, `tag` its ASN.1 type."""

    oid: str
    tag: int
    content: bytes
    encoded: bytes


# The attributes of a relative distinguished name: nearly always one.
Rdn = tuple[Attribute, ...]


class Certificate(NamedTuple):
    # In the order of the certificate: the country mostly first.
    subject: tuple[Rdn, ...]
    not_before_s: int
    not_after_s: int


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def read_certificate(der: bytes) -> Certificate:
    """Raises MalformedCertificate."""
    (whole,) = _elements(der, 1)
    fields = _elements(_expect(_elements(whole.content, 1)[0], SEQUENCE))
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    # serialNumber, signature, issuer, validity, subject
    if len(fields) < 5:
        raise MalformedCertificate("a certificate has more fields")
    _, _, _, validity, subject, *_ = fields
    times = _elements(_expect(validity, SEQUENCE))
    if len(times) != 2:
        raise MalformedCertificate("a validity has two times")
    return Certificate(
        tuple(_read_rdn(each) for each in _elements(_expect(subject, SEQUENCE))), _seconds(times[0]), _seconds(times[1])
    )


def _read_rdn(element: _Element) -> Rdn:
    return tuple(_read_attribute(each) for each in _elements(_expect(element, SET)))


def _read_attribute(element: _Element) -> Attribute:
    pair = _elements(_expect(element, SEQUENCE))
    if len(pair) != 2:
        raise MalformedCertificate("an attribute of a name has a type and a value")
    kind, value = pair
    return Attribute(_read_oid(_expect(kind, _OBJECT_IDENTIFIER)), value.tag, value.content, value.encoded)


def _read_oid(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise MalformedCertificate("an object identifier is cut off")
    if len(content) > _OID_BYTES_MAX:
        raise MalformedCertificate(f"an object identifier has more than {_OID_BYTES_MAX} bytes")
    arcs: list[int] = []
    arc = 0
    for byte in content:
        arc = arc << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _seconds(element: _Element) -> int:
    text = element.content.decode("ascii", "replace")
    if element.tag == _UTC_TIME:
        # RFC 5280, 4.1.2.5.1: two digits of the year are those of 1950 to 2049.
        text = ("19" if text >= "5" else "20") + text
    elif element.tag != _GENERALIZED_TIME:
        raise MalformedCertificate("a validity has a time of an unknown type")
    digits = text.removesuffix("Z")
    if len(text) != 15 or len(digits) != 14 or not digits.isdigit():
        raise MalformedCertificate(f"{text[:20]!r} is not a time")
    month, day, hour, minute, second = (int(digits[start : start + 2]) for start in range(4, 14, 2))
    try:
        return int(datetime(int(digits[:4]), month, day, hour, minute, second, tzinfo=UTC).timestamp())
    except ValueError as error:
        raise MalformedCertificate(f"{text!r} is not a time: {error}") from None


def _expect(element: _Element, tag: int) -> bytes:
    if element.tag != tag:
        raise MalformedCertificate(f"ASN.1 type {element.tag:#x} where {tag:#x} is expected")
    return element.content


def _elements(data: bytes, count_max: int | None = None) -> list[_Element]:
    """The elements that follow each other in `data`, at most `count_max` of them."""
    found: list[_Element] = []
    position = 0
    while position < len(data) and len(found) != count_max:
        content = position + 2
        if content > len(data):
            raise MalformedCertificate("an element is cut off")
        tag, length = data[position], data[position + 1]
        if length & 0x80:
            size = length & 0x7F
            if not 0 < size <= _LENGTH_BYTES_MAX:
                raise MalformedCertificate("an element has no length, or too great a one")
            length = int.from_bytes(data[content : content + size])
            content += size
        end = content + length
        if end > len(data):
            raise MalformedCertificate("an element is cut off")
        found.append(_Element(tag, data[content:end], data[position:end]))
        position = end
    if count_max is not None and len(found) < count_max:
        raise MalformedCertificate("an element is missing")
    return found
