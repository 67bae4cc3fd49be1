"""Attacks on authentication that have worked on other systems; every mechanism's exchange, fuzzed over the wire."""

import base64
import hmac
import json
import logging
import random
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.security import oauth_bearer, plain
from headwater.security.scram import ScramClient, ScramFailed
from headwater.security.scram_keys import MECHANISMS as SCRAMS
from headwater.testing import Broker
from tests.support.broker.on_loop import connection_of, eventually, on_loop
from tests.support.kafka.raw_client import batch_of, fetch_request, frame
from tests.support.security.logins import MECHANISMS, OAUTHBEARER, PLAIN, SCRAM_256
from tests.support.security.raw_sasl import PASSWORD, Connect, RawSasl
from tests.support.security.tokens import Issuer, base64url, claims, json_part

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
UNAUTHENTICATED_BYTES_MAX = 524_288
FUZZED = 150

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def first_message(client: RawSasl) -> bytes:
    """An honest one."""
    login = client.login
    if login.token is not None:
        return oauth_bearer.encode(login.token())
    if login.mechanism == PLAIN:
        return plain.encode(login.user, login.password)
    return b"n,,n=ann,r=" + secrets.token_urlsafe().encode()


# -- CVE-2017-12610: a client that acts for another user


@each_mechanism
def test_nobody_authenticates_as_somebody_else(broker: Broker, connect: Connect, mechanism: str) -> None:
    broker.call(broker.node.broker.access.users.set_password("admin", "unknown to ann"))
    client = connect(mechanism)
    client.handshake()
    message = first_message(client)
    if mechanism == PLAIN:
        message = b"admin" + message
    else:
        message = message.replace(b"n,,", b"n,a=admin,", 1)

    assert client.authenticate(message).error_code == FAILED
    assert client.is_closed()


# -- CVE-2024-56128: the nonce of SCRAM's final message


@pytest.mark.parametrize("mechanism", sorted(SCRAMS))
def test_the_final_message_repeats_the_nonce_of_this_exchange(connect: Connect, mechanism: str) -> None:
    """A recorded final message would otherwise authenticate again."""

    class OtherNonce(ScramClient):
        def _read_challenge(self, server_first: bytes) -> tuple[bytes, bytes, int]:
            nonce, salt, iterations = super()._read_challenge(server_first)
            return nonce[:-1] + (b"A" if nonce[-1:] != b"A" else b"B"), salt, iterations

    client = connect(mechanism)
    client.handshake()
    scram = OtherNonce(SCRAMS[mechanism].digest, "ann", PASSWORD, secrets.token_urlsafe())
    challenge = client.authenticate(scram.first())
    answer = client.authenticate(scram.final(bytes(challenge.auth_bytes)))

    assert (answer.error_code, bytes(answer.auth_bytes)) == (FAILED, b"")


def test_a_recorded_exchange_does_not_authenticate_again(connect: Connect) -> None:
    scram = ScramClient("sha256", "ann", PASSWORD, "a nonce that the client repeats")
    recorded = b""
    for expected in (ErrorCode.NONE, FAILED):
        client = connect(SCRAM_256)
        client.handshake()
        challenge = client.authenticate(scram.first())
        recorded = recorded or scram.final(bytes(challenge.auth_bytes))
        assert client.authenticate(recorded).error_code == expected


# -- CVE-2022-34917: memory before authentication


def test_a_stranger_takes_memory_for_received_bytes_alone_and_up_to_a_small_limit(
    broker: Broker, connect: Connect
) -> None:
    before = on_loop(broker, lambda: broker.node.connections.memory.used)
    clients = [connect() for _ in range(20)]
    for client in clients:
        client.send_bytes(UNAUTHENTICATED_BYTES_MAX.to_bytes(4, "big") + bytes(10_000))
        connection = connection_of(broker, client)
        eventually(broker, lambda found=connection: found._frames.partial_bytes == 10_004)
    used = on_loop(broker, lambda: broker.node.connections.memory.used)
    assert used - before <= len(clients) * 2 * 10_004

    too_large = connect()
    too_large.send_bytes((UNAUTHENTICATED_BYTES_MAX + 1).to_bytes(4, "big"))
    assert too_large.is_closed()


def test_the_limit_rises_with_authentication_and_falls_with_the_end_of_the_session(connect: Connect) -> None:
    client = connect()
    client.log_in()
    client.create("topic")
    assert client.produce("topic", batch_of(bytes(UNAUTHENTICATED_BYTES_MAX))).error_code == 0


# -- CVE-2018-12550: no rules at all


@pytest.mark.parametrize("settings", [{"authorizer.class.name": "acl"}], ids=[""])
def test_without_any_rule_everything_is_denied(broker: Broker, connect: Connect) -> None:
    broker.call(broker.node.broker.topics.create("topic", {}, partition_count=1))
    client = connect()
    client.log_in()
    assert client.produce("topic", batch_of(b"v")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert client.fetch("topic", 0).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert client.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics == []


# -- CVE-2018-1288: a client that fetches as if it were a replica


@pytest.mark.parametrize("settings", [{"authorizer.class.name": "acl", "super.users": "User:ann"}], ids=[""])
def test_not_even_a_super_user_is_a_replica(connect: Connect) -> None:
    client = connect()
    client.log_in()
    client.create("topic")
    client.produce("topic", batch_of(b"v"))
    answer = client.ask(fetch_request({"topic": {0: 0}}, replica_id=1), FetchResponse, 12)
    told = [partition for topic in answer.responses for partition in topic.partitions]
    assert answer.error_code or all(each.error_code for each in told)
    assert not any(each.records for each in told)


# -- forged tokens


def forged(issuer: Issuer, now_s: int) -> Sequence[str]:
    good = claims(now_s, sub="admin")
    payload = json_part(good)
    none = json_part({"alg": "none"})
    symmetric = f"{json_part({'alg': 'HS256', 'kid': 'ES256'})}.{payload}"
    # The public key as the secret of an HMAC (CVE-2015-9235).
    public = json.dumps(issuer.jwk("ES256")).encode()
    honest = issuer.token(claims(now_s), "ES256")
    header, _, signature = honest.split(".")
    return [
        f"{none}.{payload}.",
        f"{json_part({'alg': 'NONE'})}.{payload}.{signature}",
        f"{symmetric}.{base64url(hmac.digest(public, symmetric.encode(), 'sha256'))}",
        f"{header}.{payload}.{signature}",
        f"{header}.{payload}.",
        # CVE-2022-21449: a signature of zeros.
        f"{header}.{payload}.{base64url(bytes(64))}",
        Issuer().token(good, "ES256"),
        issuer.token(good, "ES256", jwk=Issuer().jwk("ES256"), kid="other"),
        issuer.token(good, "ES256", crit=["exp"]),
        issuer.token(claims(now_s, exp=None), "ES256"),
        issuer.token(claims(now_s, exp=float("inf")), "ES256"),
        issuer.token(claims(now_s, exp="9999999999"), "ES256"),
        issuer.token(claims(now_s, sub=["ann"]), "ES256"),
        issuer.token(claims(now_s, sub=""), "ES256"),
        issuer.signed(json_part({"alg": "ES256", "kid": "ES256"}), base64url(b"[" * 10_000), "ES256"),
        issuer.signed(
            json_part({"alg": "ES256", "kid": "ES256"}),
            base64url(b'{"sub":"ann","sub":"admin","exp":9999999999}'),
            "ES256",
        ),
        honest + ".",
        honest.replace(".", "..", 1),
    ]


def test_no_forged_token_authenticates(
    connect: Connect, issuer: Issuer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for token in forged(issuer, clock.now_ms() // 1000):
        client = connect(OAUTHBEARER)
        client.login = client.login.but(token=lambda token=token: token)
        client.handshake()
        answer = client.authenticate(f"n,,\1auth=Bearer {token}\1\1".encode())
        assert answer.error_code or bytes(answer.auth_bytes) == b'{"status":"invalid_token"}', token
        assert answer.session_lifetime_ms == 0
    assert connect(OAUTHBEARER).log_in().error_code == 0
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


# -- fuzz


class Mutator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, message: bytes) -> bytes:
        chosen = self._random
        changed = bytearray(message)
        for _ in range(chosen.randint(1, 4)):
            place = chosen.randrange(len(changed) + 1)
            match chosen.randrange(6):
                case 0 if changed:
                    changed[place - 1] = chosen.randrange(256)
                case 1:
                    changed[place:place] = chosen.choice((b"\0", b"\1", b",", b"=", b"\xff", b"a=admin", b"m=x,", b"."))
                case 2:
                    del changed[place : place + chosen.randint(1, 8)]
                case 3:
                    changed[place:place] = changed[: chosen.randint(0, 50)]
                case 4:
                    changed[place:place] = bytes(chosen.choices(range(256), k=chosen.randint(1, 2000)))
                case _:
                    del changed[place:]
        return bytes(changed)


@each_mechanism
def test_a_mutated_exchange_is_refused_and_nobody_else_notices(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    mutate = Mutator(1)
    bystander = connect()
    bystander.log_in()
    bystander.create("topic")
    for number in range(FUZZED):
        client = connect(mechanism)
        client.handshake()
        honest = first_message(client)
        sent = mutate(honest)
        if sent == honest:
            continue
        answer = client.authenticate(sent)
        if not answer.error_code and mechanism in SCRAMS:
            # The first message may still be one; its proof is not.
            proof = base64.b64encode(bytes(SCRAMS[mechanism].digest_bytes))
            final = b"c=biws,r=%s,p=%s" % (bytes(answer.auth_bytes).partition(b",")[0][2:], proof)
            answer = client.authenticate(mutate(final))
        if not answer.error_code and mechanism == OAUTHBEARER:
            if bytes(answer.auth_bytes):
                answer = client.authenticate(mutate(b"\1"))
            else:
                # What is not the token may have changed: a key of an extension.
                assert honest.split(b"\1")[1] in sent
                continue
        assert answer.error_code == FAILED, (number, sent)
        client.socket.close()
        if number % 50 == 0:
            assert bystander.produce("topic", batch_of(b"v")).error_code == 0
    assert len(bystander.records("topic")) == FUZZED // 50
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("seed", range(2))
def test_random_requests_in_random_order_never_authenticate(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    mutate = Mutator(seed)
    chosen = random.Random(seed)
    for _ in range(FUZZED):
        client = connect(chosen.choice(MECHANISMS), password="wrong", exp=1)
        requests: Sequence[tuple[Any, int]] = [
            (SaslHandshakeRequest(mechanism=chosen.choice([*MECHANISMS, "", "x" * 30_000])), chosen.randrange(2)),
            (SaslAuthenticateRequest(auth_bytes=mutate(first_message(client))), chosen.randrange(3)),
            (SaslAuthenticateRequest(auth_bytes=first_message(client)), 2),
            (MetadataRequest(topics=None), 9),
        ]
        sent = b"".join(frame(*chosen.choice(requests)) for _ in range(5))
        client.send_bytes(mutate(sent) if chosen.random() < 0.5 else sent)
        # The broker may have closed the connection already.
        with suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65_536):
                pass
    (family,) = on_loop(
        broker, lambda: broker.node.broker.measurements.metrics.collect("headwater_authentications_total")
    )
    assert not [sample for sample in family.samples if ("result", "success") in sample.labels and sample.value]
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert connect().log_in().error_code == 0


def test_a_server_that_does_not_know_the_password_is_not_trusted(connect: Connect) -> None:
    """The other direction: the last message of the broker proves that it knows the password."""
    client = connect(SCRAM_256)
    client.handshake()
    scram = ScramClient("sha256", "ann", PASSWORD, secrets.token_urlsafe())
    challenge = client.authenticate(scram.first())
    answer = client.authenticate(scram.final(bytes(challenge.auth_bytes)))
    scram.verify(bytes(answer.auth_bytes))
    with pytest.raises(ScramFailed):
        scram.verify(b"v=" + base64.b64encode(bytes(32)))
