"""Where the keys of the issuer of tokens come from, and when they are read again."""

import asyncio
import ssl
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwater.broker.access.issuer_keys import BYTES_MAX, UNKNOWN_KEY_INTERVAL_MS, IssuerKeys
from headwater.clock import ManualClock
from headwater.config.broker import BrokerConfig
from headwater.errors import ConfigError
from headwater.security.jwt import InvalidToken, UnknownKey
from tests.support.client.certificates import Authority
from tests.support.security.tokens import NOW_S, Issuer, claims

ISSUER = Issuer()
TOKEN, OTHER = ISSUER.token(claims(), "ES256"), ISSUER.token(claims(), "ES384")
TIMEOUT_S = 20


def keys_at(url: str, clock: ManualClock | None = None, settings: Mapping[str, str] | None = None) -> IssuerKeys:
    values = {"sasl.oauthbearer.jwks.endpoint.url": url, **(settings or {})}
    return IssuerKeys(BrokerConfig.from_values(values), clock or ManualClock(NOW_S * 1000))


async def test_keys_in_a_file_verify_tokens_by_the_rules_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "key set.json"
    file.write_bytes(ISSUER.jwks())
    keys = keys_at(file.as_uri(), settings={"sasl.oauthbearer.expected.audience": "headwater"})
    await keys.start()
    try:
        assert keys.validate(TOKEN).principal == "ann"
        with pytest.raises(InvalidToken, match="for somebody else"):
            keys.validate(ISSUER.token(claims(aud="other")))
    finally:
        keys.stop()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "No such file"), (b"{}", 'no list "keys"'), (b" " * (BYTES_MAX + 1), "more than 1048576 bytes")],
    ids=["no file", "no keys", "too much"],
)
async def test_a_file_without_keys_is_refused_by_the_setting(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "keys.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"sasl\.oauthbearer\.jwks\.endpoint\.url: file://.*: .*{complaint}"):
        await keys_at(file.as_uri()).start()


async def test_an_unknown_key_has_the_keys_read_again_but_not_too_often(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(ISSUER.jwks("ES256"))
    clock = ManualClock(NOW_S * 1000)
    keys = keys_at(file.as_uri(), clock)
    await keys.start()
    try:
        with pytest.raises(UnknownKey):
            keys.validate(OTHER)
        file.write_bytes(ISSUER.jwks("ES384"))
        await until_valid(keys, OTHER)

        file.write_bytes(ISSUER.jwks("ES256"))
        with pytest.raises(UnknownKey):
            keys.validate(TOKEN)
        assert not keys._is_wanted.is_set(), "clients choose the ids of keys"
        clock.advance(UNKNOWN_KEY_INTERVAL_MS)
        await until_valid(keys, TOKEN)
    finally:
        keys.stop()


async def until_valid(keys: IssuerKeys, token: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                keys.validate(token)
                return
            except UnknownKey:
                await asyncio.sleep(0.001)


async def test_the_last_good_keys_stay_in_force(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(ISSUER.jwks())
    keys = keys_at(file.as_uri())
    await keys.read()
    file.write_bytes(b"damaged")

    with pytest.raises(ConfigError):
        await keys.read()

    assert keys.validate(TOKEN).principal == "ann"


class Server(ThreadingHTTPServer):
    """An HTTPS server that gives one answer."""

    status, body = 200, ISSUER.jwks()
    location: str | None = None


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        self.send_response(server.status)
        if server.location is not None:
            self.send_header("Location", server.location)
        self.end_headers()
        self.wfile.write(server.body)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    authority = Authority(tmp_path)
    identity = authority.issue("issuer")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    server = Server(("127.0.0.1", 0), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def url_of(server: Server) -> str:
    return f"https://localhost:{server.server_port}/keys?of=issuer"


async def test_keys_come_from_an_https_server(server: Server) -> None:
    keys = keys_at(url_of(server))
    await keys.read()

    assert keys.validate(TOKEN).principal == "ann"


@pytest.mark.parametrize(
    ("status", "body", "location", "complaint"),
    [
        (500, b"", None, "status 500"),
        # Somebody who can write a redirect must not choose where the broker sends requests.
        (302, b"", "https://169.254.169.254/", "status 302"),
        (200, b"<html>", None, "not JSON"),
        (200, b" " * (BYTES_MAX + 1), None, "more than 1048576 bytes"),
    ],
    ids=["error", "redirect", "no keys", "too much"],
)
async def test_an_answer_without_keys_is_refused(
    server: Server, status: int, body: bytes, location: str | None, complaint: str
) -> None:
    server.status, server.body, server.location = status, body, location
    with pytest.raises(ConfigError, match=complaint):
        await keys_at(url_of(server)).read()


async def test_a_server_without_a_trusted_certificate_is_not_believed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ConfigError, match="certificate verify failed"):
        await keys_at(url_of(server)).read()


async def test_a_server_that_is_down_at_the_start_is_asked_again(server: Server) -> None:
    server.status = 503
    keys = keys_at(url_of(server), settings={"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1"})
    await keys.start()
    try:
        with pytest.raises(UnknownKey):
            keys.validate(TOKEN)
        server.status = 200
        await until_valid(keys, TOKEN)
    finally:
        keys.stop()


@pytest.mark.parametrize(
    "url", ["http://issuer/keys", "https:///keys", "file://host/keys", "file:", "/keys", "ftp://x/y", "https://[/"]
)
def test_keys_come_only_from_where_it_is_certain_who_wrote_them(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: neither"):
        keys_at(url)
