"""Distinguished names as Java's `X500Principal.getName()` writes them (RFC 2253): the name of a client that shows a
certificate, as Kafka's ACLs and `super.users` spell it, such as `CN=ann,OU=Sales,O=Example,C=DE`.
"""

from collections.abc import Iterable

from headwater.security.x509 import Attribute, Rdn

# The types that RFC 2253 gives a keyword. All others are written as numbers, with their value in hexadecimal.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java takes for text.
_TEXT_TAGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPES = str.maketrans({**{character: f"\\{character}" for character in ',=+<>#;"\\'}, "\0": "\\00"})
# Java trims these two where it looks for space that must be escaped at the ends.
_SPACES = " \r"


def rfc2253_name(subject: Iterable[Rdn]) -> str:
    """The name, its last part first."""
    return ",".join("+".join(map(_render, rdn)) for rdn in reversed(tuple(subject)))


def _render(attribute: Attribute) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or attribute.tag not in _TEXT_TAGS:
        return f"{keyword or attribute.oid}=#{attribute.encoded.hex()}"
    # Java reads every string as UTF-8, whatever its type.
    return f"{keyword}={_escape(attribute.content.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    escaped = text.translate(_ESCAPES)
    inner = escaped.strip(_SPACES)
    start = escaped.index(inner)
    before, after = escaped[:start], escaped[start + len(inner) :]
    return _escape_each(before) + inner + _escape_each(after)


def _escape_each(spaces: str) -> str:
    return "".join(f"\\{space}" for space in spaces)
