"""TLS to a broker: whom we trust, and the certificate that we show. At least TLS 1.2, certificates always verified.

Law: keys and their passwords appear in no error, log or representation.
"""

import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from headwater.client.errors import AuthenticationFailed, ConnectionLost
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM that stands in a file (or, for trust, a directory of files), or in the setting itself."""

    setting: str
    file: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    # None trusts the authorities that the operating system trusts.
    trusted: Pem | None = None
    certificate: Pem | None = None
    # None where the certificate's file holds the key, too.
    key: Pem | None = None
    key_password: str | None = field(default=None, repr=False)
    # Whether the broker's certificate must name the host that was connected to.
    is_host_checked: bool = True
    version_min: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    version_max: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.is_host_checked
        context.minimum_version = self.version_min
        context.maximum_version = self.version_max
        if self.trusted is None:
            context.load_default_certs()
        else:
            with _named(self.trusted):
                _trust(context, self.trusted)
        if self.certificate is not None:
            with _named(self.key or self.certificate):
                self._show(context, self.certificate)
        return context

    def wrap(self, connected: socket.socket, endpoint: Endpoint) -> ssl.SSLSocket:
        """`connected` with TLS over it, or closed."""
        try:
            return self.context().wrap_socket(connected, server_hostname=endpoint.host)
        except TimeoutError:
            raise ConnectionLost(f"{endpoint} did not go on with TLS in time") from None
        except (ssl.SSLError, ConnectionError) as error:
            raise self.refusal(error, endpoint) or ConnectionLost(
                f"TLS with {endpoint} did not begin: {_reason(error)}; does it speak TLS there? (security.protocol)"
            ) from error
        finally:
            # Wrapping takes the socket over; what is left here if that failed is ours to close.
            connected.close()

    @staticmethod
    def refusal(error: OSError, endpoint: Endpoint) -> AuthenticationFailed | None:
        """What an error says if one side refused the other, which in TLS 1.3 may come after all seemed well."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return AuthenticationFailed(f"the certificate of {endpoint} is not to be trusted: {error.verify_message}")
        reason = _reason(error)
        if not isinstance(error, ssl.SSLError) or "alert" not in reason:
            return None
        hint = " (ssl.certificate.location)" if "certificate" in reason else ""
        return AuthenticationFailed(f"{endpoint} refused TLS with us: {reason}{hint}")

    def _show(self, context: ssl.SSLContext, certificate: Pem) -> None:
        # OpenSSL would ask on the terminal for a password that is missing: an empty one is refused instead.
        password = self.key_password or ""
        with _as_file(certificate) as certificate_file:
            if self.key is None:
                context.load_cert_chain(certificate_file, password=password)
                return
            with _as_file(self.key) as key_file:
                context.load_cert_chain(certificate_file, key_file, password=password)


def _trust(context: ssl.SSLContext, trusted: Pem) -> None:
    if trusted.file is None:
        # Whatever stands between certificates is a comment, but Python takes ASCII only.
        context.load_verify_locations(cadata=(trusted.text or "").encode("ascii", "replace").decode())
    elif Path(trusted.file).is_dir():
        context.load_verify_locations(capath=trusted.file)
    else:
        context.load_verify_locations(cafile=trusted.file)


@contextmanager
def _named(pem: Pem) -> Generator[None]:
    """Says which setting leads to what cannot be loaded."""
    where = "its text" if pem.file is None else pem.file
    try:
        yield
    except ssl.SSLError as error:
        raise ConfigError(f"{pem.setting}: {where} does not hold PEM that fits: {_reason(error)}") from error
    except OSError as error:
        raise ConfigError(f"{pem.setting}: {where}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{pem.setting}: {where} cannot be used: {error}") from error


@contextmanager
def _as_file(pem: Pem) -> Generator[str]:
    """OpenSSL reads certificates and keys from files only. The file is for our user alone, and gone after."""
    if pem.file is not None:
        yield pem.file
        return
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem.text or "")
        file.flush()
        yield file.name


def _reason(error: OSError) -> str:
    """In words: the reason of TLS is a name in capitals."""
    named = error.reason if isinstance(error, ssl.SSLError) else None
    return named.replace("_", " ").lower() if named else error.strerror or str(error)
