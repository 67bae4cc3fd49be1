"""SASL authentication with a broker that follows the protocol and with brokers that do not."""

import base64
import hashlib
import hmac

import pytest

from headwater.client.connection import BrokerConnection
from headwater.client.errors import AuthenticationFailed, ClientError, ConnectionLost, UnsupportedApi
from headwater.client.security.sasl import Credentials
from headwater.client.security.security import Security
from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.wire.codec import Request
from tests.support.client.scripted import Script, ScriptedBroker

PASSWORD = "secret tea"
ITERATIONS = 4096
SALT = b"salt"


def handshake(*mechanisms: str) -> Script:
    def script(request: Request) -> SaslHandshakeResponse:
        assert isinstance(request, SaslHandshakeRequest)
        code = ErrorCode.NONE if request.mechanism in mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms))

    return script


def plain(request: Request) -> SaslAuthenticateResponse:
    assert isinstance(request, SaslAuthenticateRequest)
    if request.auth_bytes == f"\0ann\0{PASSWORD}".encode():
        return SaslAuthenticateResponse(auth_bytes=b"")
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    return SaslAuthenticateResponse(error_code=code, error_message="Authentication failed", auth_bytes=b"")


class ScramServer:
    """The server's half of one exchange, written from the RFC and not from our client."""

    def __init__(self, digest: str, password: str = PASSWORD) -> None:
        self._digest = digest
        self._salted = hashlib.pbkdf2_hmac(digest, password.encode(), SALT, ITERATIONS)
        self._messages: list[bytes] = []

    def __call__(self, request: Request) -> SaslAuthenticateResponse:
        assert isinstance(request, SaslAuthenticateRequest)
        message = bytes(request.auth_bytes)
        if not self._messages:
            assert message.startswith(b"n,,n=ann,r=")
            nonce = message.rpartition(b"r=")[2]
            answer = b"r=%s-more,s=%s,i=%d" % (nonce, base64.b64encode(SALT), ITERATIONS)
            self._messages = [message.removeprefix(b"n,,"), answer]
            return SaslAuthenticateResponse(auth_bytes=answer)
        without_proof, _, proof = message.partition(b",p=")
        signed = b",".join((*self._messages, without_proof))
        if self._client_key_of(base64.b64decode(proof), signed) != self._hmac(self._salted, b"Client Key"):
            return SaslAuthenticateResponse(auth_bytes=b"e=invalid-proof")
        signature = self._hmac(self._hmac(self._salted, b"Server Key"), signed)
        return SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(signature))

    def _client_key_of(self, proof: bytes, signed: bytes) -> bytes:
        stored_key = hashlib.new(self._digest, self._hmac(self._salted, b"Client Key")).digest()
        signature = self._hmac(stored_key, signed)
        return bytes(left ^ right for left, right in zip(proof, signature, strict=True))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def as_ann(mechanism: str, password: str = PASSWORD) -> Security:
    return Security(credentials=Credentials(mechanism, "ann", password))


def metadata(_: Request) -> MetadataResponse:
    return MetadataResponse(brokers=[], topics=[], cluster_id="secured", controller_id=1)


@pytest.mark.parametrize(
    ("mechanism", "authenticate"),
    [("PLAIN", plain), ("SCRAM-SHA-256", ScramServer("sha256")), ("SCRAM-SHA-512", ScramServer("sha512"))],
)
def test_the_client_authenticates_before_any_other_request(mechanism: str, authenticate: Script) -> None:
    scripts: dict[type[Request], Script] = {
        SaslHandshakeRequest: handshake(mechanism),
        SaslAuthenticateRequest: authenticate,
        MetadataRequest: metadata,
    }
    with ScriptedBroker(scripts) as broker, BrokerConnection(broker.endpoint, security=as_ann(mechanism)) as connection:
        assert connection.call(MetadataRequest(topics=None), MetadataResponse).cluster_id == "secured"
        kinds = [type(request) for request in broker.requests]

    assert kinds[:3] == [ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest]
    assert kinds[-1] is MetadataRequest


@pytest.mark.parametrize(
    ("mechanism", "authenticate", "complaint"),
    [
        ("PLAIN", plain, r"user 'ann': Authentication failed \(SASL_AUTHENTICATION_FAILED\)"),
        ("SCRAM-SHA-256", ScramServer("sha256"), "user 'ann': the server says 'invalid-proof'"),
        ("SCRAM-SHA-256", lambda _: SaslAuthenticateResponse(auth_bytes=b"r=x,s=AAAA,i=4096"), "does not extend ours"),
        ("SCRAM-SHA-512", lambda _: SaslAuthenticateResponse(auth_bytes=b""), "not one of SCRAM"),
        ("GSSAPI", plain, "does not take GSSAPI; it takes PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_a_refused_authentication_is_one_clear_error_without_the_password(
    mechanism: str, authenticate: Script, complaint: str
) -> None:
    scripts: dict[type[Request], Script] = {
        SaslHandshakeRequest: handshake("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        SaslAuthenticateRequest: authenticate,
    }
    with (
        ScriptedBroker(scripts) as broker,
        pytest.raises(AuthenticationFailed, match=complaint) as raised,
    ):
        BrokerConnection(broker.endpoint, security=as_ann(mechanism, "secret milk"))
    assert not raised.value.is_retriable
    assert "secret" not in str(raised.value)
    assert "secret" not in repr(broker.requests)


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (ErrorCode.ILLEGAL_SASL_STATE, "asks nobody who they are"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "refused to agree on PLAIN: CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
def test_a_refused_handshake_is_an_error(code: ErrorCode, complaint: str) -> None:
    answer = SaslHandshakeResponse(error_code=code, mechanisms=[])
    scripts: dict[type[Request], Script] = {
        SaslHandshakeRequest: lambda _: answer,
        SaslAuthenticateRequest: plain,
    }
    with ScriptedBroker(scripts) as broker, pytest.raises(ClientError, match=complaint):
        BrokerConnection(broker.endpoint, security=as_ann("PLAIN"))


@pytest.mark.parametrize(("versions", "complaint"), [([(17, 0)], "too old"), ([], "offers nothing of SaslHandshake")])
def test_a_broker_without_sasl_is_an_error(versions: list[tuple[int, int]], complaint: str) -> None:
    offer = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=0, max_version=last) for key, last in versions]
    )
    with (
        ScriptedBroker({ApiVersionsRequest: lambda _: offer}) as broker,
        pytest.raises(UnsupportedApi, match=complaint),
    ):
        BrokerConnection(broker.endpoint, security=as_ann("PLAIN"))


def test_after_a_hang_up_on_the_first_request_the_error_suggests_authentication() -> None:
    with (
        ScriptedBroker({MetadataRequest: lambda _: None}) as broker,
        BrokerConnection(broker.endpoint) as connection,
        pytest.raises(ConnectionLost, match=r"does it want to know who we are\? \(security.protocol\)"),
    ):
        connection.call(MetadataRequest(topics=None), MetadataResponse)


def test_credentials_are_shown_without_the_password() -> None:
    assert repr(as_ann("PLAIN").credentials) == "Credentials(mechanism='PLAIN', username='ann', is_token=False)"
