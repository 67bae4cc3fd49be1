"""A token endpoint (RFC 6749): an HTTP server on the loopback interface that issues tokens for a client's secret."""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from headwater.certificate_authority import CertificateAuthority

CLIENT_ID, SECRET = "job", "planted secret"


class TokenEndpoint:
    """`answer` gives the status and the body of each answer to a client with the right secret."""

    def __init__(self, answer: Callable[[], tuple[int, bytes]], *, directory: Path | None = None) -> None:
        """With a `directory` for its certificate it speaks TLS."""
        self.forms: list[dict[str, list[str]]] = []
        endpoint = self
        expected = "Basic " + b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.forms.append(parse_qs(body.decode()))
                if self.headers["Authorization"] == expected:
                    status, content = answer()
                else:
                    status, content = 401, b'{"error": "invalid_client"}'
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 (the base class names it)
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.ca_file: Path | None = None
        scheme = "http"
        if directory is not None:
            authority = CertificateAuthority(directory)
            authority.create()
            self.ca_file, scheme = authority.certificate, "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(authority.issue_server((), 1))
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/token?realm=x"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def issued(token: str, expires_in: float | None = 300) -> bytes:
    answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
    return json.dumps(answer if expires_in is None else {**answer, "expires_in": expires_in}).encode()
