"""A certificate authority of the tests' own, made with openssl."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_DAYS = "30"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, as files and as PEM text."""

    certificate: Path
    key: Path

    @property
    def both(self) -> str:
        return self.key.read_text() + self.certificate.read_text()


class Authority:
    """Keeps its certificate in `certificate`; a client that trusts it trusts all certificates that it issues."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        directory.mkdir(parents=True, exist_ok=True)
        _openssl(self.certificate, self._key, "Authority", ["-nodes"])

    def issue(self, name: str, *, hosts: str = "IP:127.0.0.1,DNS:localhost", password: str | None = None) -> Identity:
        """`password` encrypts the key."""
        issued = Identity(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        encrypted = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        by_us = ["-CA", str(self.certificate), "-CAkey", str(self._key), "-addext", f"subjectAltName={hosts}"]
        end_entity = ["-addext", "basicConstraints=critical,CA:FALSE"]
        _openssl(issued.certificate, issued.key, name, [*encrypted, *by_us, *end_entity])
        return issued


def _openssl(certificate: Path, key: Path, name: str, options: Sequence[str]) -> None:
    command = ["openssl", "req", "-x509", *_KEY, "-keyout", str(key), "-out", str(certificate), "-days", _DAYS]
    done = subprocess.run(
        [*command, "-subj", f"/CN={name}", *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
