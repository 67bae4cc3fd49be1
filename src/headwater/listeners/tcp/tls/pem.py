"""PEM from a file or from a setting: read once, checked, and handed to OpenSSL through memory.

Law: keys and their passwords appear in no error, log or repr, and are written to no disk.
"""

import os
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IROTH
from typing import Self

from headwater.errors import ConfigError
from headwater.security.x509 import Certificate, MalformedCertificate, read_certificate

_BYTES_MAX = 4 << 20
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)-----END \1-----", re.DOTALL)
_LINE_LENGTH = 64

CERTIFICATE, REVOCATION_LIST = "CERTIFICATE", "X509 CRL"
_PRIVATE_KEY = "PRIVATE KEY"


class Pem:
    __slots__ = ("_text", "blocks", "file", "source")

    def __init__(self, source: str, text: str, file: Path | None) -> None:
        """`source` names the setting, and the file if there is one, in errors."""
        self.source = source
        self.file = file
        self._text = text
        self.blocks = [(found[1], found[2]) for found in _BLOCK.finditer(text)]
        if not self.blocks:
            raise self.refusal("this is not PEM: there is no -----BEGIN ...----- with an end")

    @classmethod
    def from_file(cls, setting: str, location: str) -> Self:
        source = f"{setting}: {location}"
        try:
            with Path(location).open("rb") as file:
                content = file.read(_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"{source}: {error.strerror or error}") from None
        if len(content) > _BYTES_MAX:
            raise ConfigError(f"{source}: more than {_BYTES_MAX} bytes")
        # Outside of the blocks any text may stand.
        return cls(source, content.decode("utf-8", "replace"), Path(location))

    @classmethod
    def from_text(cls, setting: str, text: str) -> Self:
        """As in Kafka's properties, all of it may be in one line."""
        return cls(setting, text if "\n" in text else _BLOCK.sub(_in_lines, text), None)

    def refusal(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.source}: {problem}")

    @property
    def has_key(self) -> bool:
        return any(label.endswith(_PRIVATE_KEY) for label, _ in self.blocks)

    @property
    def is_key_encrypted(self) -> bool:
        return any(label.endswith(_PRIVATE_KEY) and "ENCRYPTED" in label + body[:80] for label, body in self.blocks)

    @property
    def has_certificate(self) -> bool:
        return any(label == CERTIFICATE for label, _ in self.blocks)

    @property
    def has_revocation_list(self) -> bool:
        return any(label == REVOCATION_LIST for label, _ in self.blocks)

    @property
    def is_readable_by_others(self) -> bool:
        return self.file is not None and bool(self.file.stat().st_mode & S_IROTH)

    def first_certificate(self) -> Certificate:
        body = next((body for label, body in self.blocks if label == CERTIFICATE), None)
        if body is None:
            raise self.refusal("there is no certificate in it (-----BEGIN CERTIFICATE-----)")
        try:
            return read_certificate(b64decode(body))
        except (Base64Error, MalformedCertificate) as error:
            raise self.refusal(f"its first certificate is damaged: {error}") from None

    @contextmanager
    def as_file(self) -> Generator[str]:
        """OpenSSL reads files only: this one is in memory, and ours alone."""
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 (it has no path)
            file.write(self._text)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"


def _in_lines(block: re.Match[str]) -> str:
    body = "".join(block[2].split())
    lines = [body[start : start + _LINE_LENGTH] for start in range(0, len(body), _LINE_LENGTH)]
    return "\n".join((f"-----BEGIN {block[1]}-----", *lines, f"-----END {block[1]}-----", ""))
