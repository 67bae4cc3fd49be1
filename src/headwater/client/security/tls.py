"""TLS to a broker: the authorities to trust, and the client's certificate. At least TLS 1.2; the broker's certificate
is always verified.

Law: keys and their passwords appear in no error, log or repr.
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
    """PEM from a file (or, for trusted authorities, a directory of files), or from the setting itself."""

    setting: str
    file: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    # None: the authorities that the operating system trusts.
    trusted: Pem | None = None
    certificate: Pem | None = None
    # None if the certificate's file contains the key, too.
    key: Pem | None = None
    key_password: str | None = field(default=None, repr=False)
    # Whether the broker's certificate must name the host that we connected to.
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
            with _naming_setting(self.trusted):
                _trust(context, self.trusted)
        if self.certificate is not None:
            with _naming_setting(self.key or self.certificate):
                self._show(context, self.certificate)
        return context

    def wrap(self, connected: socket.socket, endpoint: Endpoint) -> ssl.SSLSocket:
        """Start TLS on a connected socket. If that fails, the socket is closed."""
        try:
            return self.context().wrap_socket(connected, server_hostname=endpoint.host)
        except TimeoutError:
            raise ConnectionLost(f"{endpoint} did not go on with TLS in time") from None
        except (ssl.SSLError, ConnectionError) as error:
            raise self.refusal(error, endpoint) or ConnectionLost(
                f"TLS with {endpoint} did not begin: {_reason(error)}; does it speak TLS there? (security.protocol)"
            ) from error
        finally:
            # On success `wrap_socket` has detached the socket, and this does nothing. After a failure we must close it.
            connected.close()

    @staticmethod
    def refusal(error: OSError, endpoint: Endpoint) -> AuthenticationFailed | None:
        """Return the error to raise if one side refused the other's certificate or parameters, else None. In TLS 1.3
        the refusal may arrive after the handshake seemed complete."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return AuthenticationFailed(f"the certificate of {endpoint} is not to be trusted: {error.verify_message}")
        reason = _reason(error)
        if not isinstance(error, ssl.SSLError) or "alert" not in reason:
            return None
        hint = " (ssl.certificate.location)" if "certificate" in reason else ""
        return AuthenticationFailed(f"{endpoint} refused TLS with us: {reason}{hint}")

    @classmethod
    def unread_refusal(cls, connected: socket.socket, endpoint: Endpoint) -> AuthenticationFailed | None:
        """Return the refusal that the other side sent before it closed the connection, if there is one."""
        try:
            connected.settimeout(0)
            connected.recv(1)
        except OSError as error:
            return cls.refusal(error, endpoint)
        return None

    def _show(self, context: ssl.SSLContext, certificate: Pem) -> None:
        # Without a password OpenSSL would ask for one on the terminal. An empty one makes it fail instead.
        password = self.key_password or ""
        with _as_file(certificate) as certificate_file:
            if self.key is None:
                context.load_cert_chain(certificate_file, password=password)
                return
            with _as_file(self.key) as key_file:
                context.load_cert_chain(certificate_file, key_file, password=password)


def _trust(context: ssl.SSLContext, trusted: Pem) -> None:
    if trusted.file is None:
        # Text between certificates is a comment and may hold any characters, but Python accepts ASCII only.
        context.load_verify_locations(cadata=(trusted.text or "").encode("ascii", "replace").decode())
    elif Path(trusted.file).is_dir():
        context.load_verify_locations(capath=trusted.file)
    else:
        context.load_verify_locations(cafile=trusted.file)


@contextmanager
def _naming_setting(pem: Pem) -> Generator[None]:
    """Context manager: names the setting in the error if its PEM cannot be loaded."""
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
    """Context manager: gives the PEM as a file, because OpenSSL loads certificates and keys from files only. A
    temporary file is readable by our user alone, and deleted at the end."""
    if pem.file is not None:
        yield pem.file
        return
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem.text or "")
        file.flush()
        yield file.name


def _reason(error: OSError) -> str:
    """Describe an error in words. OpenSSL's reasons are names in capitals, such as BAD_CERTIFICATE."""
    named = error.reason if isinstance(error, ssl.SSLError) else None
    return named.replace("_", " ").lower() if named else error.strerror or str(error)
