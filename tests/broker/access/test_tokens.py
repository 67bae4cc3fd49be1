"""Delegation tokens: created, renewed, ended; valid until the clock says otherwise."""

import secrets
from pathlib import Path

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode, Refusal
from headwater.security.delegation_token import password_of, token_hmac
from headwater.security.principals import user
from headwater.security.scram import is_password
from headwater.security.scram_keys import MECHANISMS
from tests.support.broker.embedded_broker import NOW_MS, running

ANN, BOB = user("ann"), user("bob")
SETTINGS = {
    "delegation.token.secret.key": "planted secret",
    "delegation.token.max.lifetime.ms": "5000",
    "delegation.token.expiry.time.ms": "1000",
}
(SHA_256, _) = MECHANISMS.values()


async def test_the_bearer_of_a_token_is_its_owner_until_it_expires(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        token, hmac = await broker.access.tokens.create(ANN, ANN, [BOB], -1)

        assert (token.expires_ms, token.max_ms) == (NOW_MS + 1000, NOW_MS + 5000)
        assert hmac == token_hmac("planted secret", token.id)
        for mechanism in MECHANISMS.values():
            account = broker.access.tokens.account(token.id, mechanism)
            assert account is not None
            assert (account.principal, account.expires_ms) == (ANN, NOW_MS + 1000)
            assert is_password(mechanism.digest, password_of(hmac).encode(), account.keys)
        assert broker.access.tokens.describe() == broker.access.tokens.describe([ANN])
        assert broker.access.tokens.describe([BOB]) == []

        clock.advance(1000)
        assert broker.access.tokens.account(token.id, SHA_256) is None
        assert broker.access.tokens.describe() == []


async def test_a_token_is_renewed_and_ended_by_its_hmac(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        tokens = broker.access.tokens
        token, hmac = await tokens.create(ANN, ANN, [BOB], 3000)

        assert await tokens.renew(hmac, BOB, 2000) == NOW_MS + 2000
        assert await tokens.renew(hmac, ANN, -1) == NOW_MS + 1000
        assert await tokens.renew(hmac, ANN, 9000) == NOW_MS + 3000
        assert await tokens.expire(hmac, ANN, 500) == NOW_MS + 500
        with pytest.raises(Refusal, match="there is no such delegation token"):
            await tokens.renew(b"other", ANN, 1)
        assert await tokens.expire(hmac, ANN, -1) == NOW_MS
        assert tokens.account(token.id, SHA_256) is None


async def test_tokens_survive_a_restart_and_end_with_the_secret_that_made_them(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        token, _ = await broker.access.tokens.create(ANN, ANN, [], -1)
    async with running(tmp_path, SETTINGS) as broker:
        assert broker.access.tokens.account(token.id, SHA_256) is not None
    async with running(tmp_path, {**SETTINGS, "delegation.token.secret.key": "other"}) as broker:
        assert broker.access.tokens.account(token.id, SHA_256) is None
        assert broker.access.tokens.describe() == []
    async with running(tmp_path) as broker:
        assert broker.access.tokens.account(token.id, SHA_256) is None
    assert not any(b"planted" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


async def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        tokens = broker.access.tokens
        for attempt in (tokens.create(ANN, ANN, [], -1), tokens.renew(b"", ANN, 1), tokens.expire(b"", ANN, 1)):
            with pytest.raises(Refusal) as refused:
                await attempt
            assert refused.value.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        with pytest.raises(Refusal):
            tokens.describe()


async def test_no_id_looks_like_an_option_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter(["-dashed", "-again", "plain"])
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: next(given))
    async with running(tmp_path, SETTINGS) as broker:
        created = await broker.access.tokens.create(ANN, ANN, [], -1)
    assert created.token.id == "plain"
