"""`headwater tls show`: what stands in the certificates of a file, or in the one of a server."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509

from headwater.endpoint import Endpoint
from headwater.errors import ConfigError

_TIMEOUT_S = 10


def shown_certificates(source: str) -> list[Mapping[str, object]]:
    try:
        if ":" not in source or Path(source).exists():
            found = x509.load_pem_x509_certificates(Path(source).read_bytes())
        else:
            found = [x509.load_der_x509_certificate(_certificate_of(Endpoint.parse(source)))]
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError(f"{source}: there is no certificate that can be read (PEM)") from None
    return [_row(certificate) for certificate in found]


def _certificate_of(server: Endpoint) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # We show the certificate, and trust nothing that the server says.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(server, _TIMEOUT_S) as connected,
        context.wrap_socket(connected, server_hostname=server.host) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def _row(certificate: x509.Certificate) -> Mapping[str, object]:
    return {
        "subject": certificate.subject.rfc4514_string(),
        "hosts": ", ".join(_hosts(certificate)),
        "valid_from": certificate.not_valid_before_utc.isoformat(),
        "valid_until": certificate.not_valid_after_utc.isoformat(),
        "issuer": certificate.issuer.rfc4514_string(),
    }


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(each.value) for each in names if isinstance(each, x509.DNSName | x509.IPAddress)]
