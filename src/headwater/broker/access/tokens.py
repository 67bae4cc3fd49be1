"""Delegation tokens (KIP-48): who holds one acts as its owner until it expires, without the owner's password.

An expired token is refused at once, and removed when the next one is created.
"""

import asyncio
import secrets
from collections.abc import Collection, Sequence
from typing import NamedTuple

from headwater.broker.ports.metadata import Metadata
from headwater.clock import Clock
from headwater.config.live import LiveConfig
from headwater.coordination.access.events import DelegationToken
from headwater.errors import ErrorCode, Refusal
from headwater.security.delegation_token import fingerprint, password_of, token_hmac
from headwater.security.principals import Principal
from headwater.security.scram import SALT_BYTES, Account, keys_of
from headwater.security.scram_keys import MECHANISMS, ScramKeys, ScramMechanism

_ID_BYTES = 16


class TokenWithHmac(NamedTuple):
    token: DelegationToken
    # What the bearer authenticates with.
    hmac: bytes

    def __repr__(self) -> str:
        return f"TokenWithHmac(id={self.token.id!r})"


class Tokens:
    def __init__(self, metadata: Metadata, config: LiveConfig, clock: Clock) -> None:
        self._metadata = metadata
        self._state = metadata.state.identities
        self._config = config
        self._clock = clock

    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], max_lifetime_ms: int
    ) -> TokenWithHmac:
        """A token that lives at most `max_lifetime_ms`, or as long as the settings allow if that is not positive."""
        secret_key = self._secret_key()
        config = self._config.current
        token_id = _new_id()
        hmac = token_hmac(secret_key, token_id)
        keys = await asyncio.to_thread(_keys_of, hmac)
        longest_ms = config.delegation_token_max_lifetime_ms
        now_ms = self._clock.now_ms()
        max_ms = now_ms + (min(max_lifetime_ms, longest_ms) if max_lifetime_ms > 0 else longest_ms)
        token = DelegationToken(
            token_id,
            fingerprint(hmac),
            owner,
            requester,
            tuple(dict.fromkeys(renewers)),
            issued_ms=now_ms,
            expires_ms=min(now_ms + config.delegation_token_expiry_time_ms, max_ms),
            max_ms=max_ms,
            keys=keys,
        )
        async with self._metadata.change_lock:
            await self._metadata.commit(self._state.decide_create_token(token, now_ms))
        return TokenWithHmac(token, hmac)

    async def renew(self, hmac: bytes, by: Principal, period_ms: int) -> int:
        """Move the end of a token to `period_ms` from now, by default as far as for a new one; gives the new end."""
        self._secret_key()
        if period_ms < 0:
            period_ms = self._config.current.delegation_token_expiry_time_ms
        return await self._set_end(hmac, by, period_ms)

    async def expire(self, hmac: bytes, by: Principal, period_ms: int) -> int:
        """Let a token end `period_ms` from now, at once if that is negative; gives its end."""
        self._secret_key()
        if period_ms >= 0:
            return await self._set_end(hmac, by, period_ms)
        async with self._metadata.change_lock:
            await self._metadata.commit(self._state.decide_remove_token(fingerprint(hmac), by))
        return self._clock.now_ms()

    async def _set_end(self, hmac: bytes, by: Principal, period_ms: int) -> int:
        async with self._metadata.change_lock:
            now_ms = self._clock.now_ms()
            events = self._state.decide_renew_token(fingerprint(hmac), by, now_ms + period_ms, now_ms)
            await self._metadata.commit(events)
        return events[0].expires_ms

    def describe(self, owners: Collection[Principal] | None = None) -> list[TokenWithHmac]:
        """The tokens that are valid, of all owners or of these."""
        secret_key = self._secret_key()
        now_ms = self._clock.now_ms()
        described = [
            TokenWithHmac(token, token_hmac(secret_key, token.id))
            for token in self._state.tokens.values()
            if token.expires_ms > now_ms and (owners is None or token.owner in owners)
        ]
        return [each for each in described if fingerprint(each.hmac) == each.token.fingerprint]

    def described(self, hmac: bytes) -> str:
        """The token in words, for the audit log."""
        token = self._state.tokens_by_fingerprint.get(fingerprint(hmac))
        return "an unknown delegation token" if token is None else f"delegation token '{token.id}' of {token.owner}"

    def account(self, token_id: str, mechanism: ScramMechanism) -> Account | None:
        """The account of a token's bearer; None if there is no such token, or no longer."""
        token = self._state.tokens.get(token_id)
        secret_key = self._config.current.delegation_token_secret_key
        if token is None or secret_key is None or token.expires_ms <= self._clock.now_ms():
            return None
        if fingerprint(token_hmac(secret_key, token_id)) != token.fingerprint:
            return None
        keys = token.keys.get(mechanism.name)
        return None if keys is None else Account(token.owner, keys, token.expires_ms)

    def _secret_key(self) -> str:
        secret_key = self._config.current.delegation_token_secret_key
        if secret_key is None:
            raise Refusal(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
                "delegation tokens are switched off (delegation.token.secret.key)",
            )
        return secret_key


def _new_id() -> str:
    # As Kafka's ids: commands would take one that begins with a dash for an option.
    while (token_id := secrets.token_urlsafe(_ID_BYTES)).startswith("-"):
        pass
    return token_id


def _keys_of(hmac: bytes) -> dict[str, ScramKeys]:
    password = password_of(hmac).encode()
    return {each.name: keys_of(each.digest, password, secrets.token_bytes(SALT_BYTES)) for each in MECHANISMS.values()}
