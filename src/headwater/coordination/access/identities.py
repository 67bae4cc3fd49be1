"""Identities: users and delegation tokens, the part of the catalog that clients authenticate against. Pure, as the
catalog's machine."""

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from headwater.coordination.access.events import (
    DelegationToken,
    DelegationTokenRemoved,
    IdentityEvent,
    SaltSecret,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.errors import ErrorCode, Refusal
from headwater.security.principals import USER, Principal
from headwater.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS, ScramKeys

USER_LENGTH_MAX = 255
SALT_BYTES_MAX = 1024
RENEWERS_MAX = 100


class IdentityMachine:
    def __init__(self, *, users_max: int = 10_000, tokens_max: int = 10_000) -> None:
        self.users_max = users_max
        self.tokens_max = tokens_max
        # By user and mechanism.
        self.credentials: dict[tuple[str, str], ScramCredential] = {}
        # How many credentials each user has.
        self.users: Counter[str] = Counter()
        # By mechanism. Users that do not exist have salts and iterations like these.
        self.newest_keys: dict[str, ScramKeys] = {}
        self.salt_secret: bytes | None = None
        self.tokens: dict[str, DelegationToken] = {}
        self.tokens_by_fingerprint: dict[bytes, DelegationToken] = {}

    # -- decisions

    def decide_set_credential(
        self, user: str, mechanism: str, keys: ScramKeys, *, added_count: int = 0
    ) -> Sequence[IdentityEvent]:
        """`added_count` is how many other users the same change adds."""
        _check_user(user)
        digest_bytes = MECHANISMS[mechanism].digest_bytes
        if not ITERATIONS_MIN <= keys.iterations <= ITERATIONS_MAX:
            raise _unacceptable(f"{keys.iterations} iterations; accepted are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        if not 0 < len(keys.salt) <= SALT_BYTES_MAX:
            raise _unacceptable(f"a salt of {len(keys.salt)} bytes, where 1 to {SALT_BYTES_MAX} are accepted")
        if not len(keys.stored_key) == len(keys.server_key) == digest_bytes:
            raise _unacceptable(f"the keys of {mechanism} have {digest_bytes} bytes")
        count = len(self.users) + added_count
        if user not in self.users and count >= self.users_max:
            raise Refusal(ErrorCode.POLICY_VIOLATION, f"there are {count} users already (headwater.users.max)")
        return [ScramCredential(user, mechanism, keys)]

    def decide_remove_credential(self, user: str, mechanism: str) -> Sequence[IdentityEvent]:
        _check_user(user)
        if (user, mechanism) not in self.credentials:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"user '{user[:40]}' has no credential for {mechanism}")
        return [ScramCredentialRemoved(user, mechanism)]

    def decide_create_token(self, token: DelegationToken, now_ms: int) -> Sequence[IdentityEvent]:
        """Creates the token, and removes those that have expired."""
        for renewer in token.renewers:
            if renewer.type != USER:
                raise Refusal(ErrorCode.INVALID_PRINCIPAL_TYPE, f"a renewer is a {USER}, not a {renewer.type[:40]!r}")
        if len(token.renewers) > RENEWERS_MAX:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{len(token.renewers)} renewers, more than {RENEWERS_MAX}")
        expired = [DelegationTokenRemoved(each.id) for each in self.tokens.values() if each.expires_ms <= now_ms]
        count = len(self.tokens) - len(expired)
        if count >= self.tokens_max:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"there are {count} delegation tokens already (headwater.delegation.tokens.max)",
            )
        return [*expired, token]

    def decide_renew_token(
        self, fingerprint: bytes, by: Principal, expires_ms: int, now_ms: int
    ) -> Sequence[DelegationToken]:
        """Moves the token's end, at most to the end of its longest life."""
        token = self.usable_token(fingerprint, by)
        if token.expires_ms <= now_ms:
            raise Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the delegation token has expired")
        return [token._replace(expires_ms=min(expires_ms, token.max_ms))]

    def decide_remove_token(self, fingerprint: bytes, by: Principal) -> Sequence[IdentityEvent]:
        return [DelegationTokenRemoved(self.usable_token(fingerprint, by).id)]

    def usable_token(self, fingerprint: bytes, by: Principal) -> DelegationToken:
        """The token, for somebody who may renew and end it."""
        token = self.tokens_by_fingerprint.get(fingerprint)
        if token is None:
            raise Refusal(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such delegation token")
        if not is_owner_or_renewer(token, by):
            raise Refusal(
                ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{by} neither owns the delegation token nor may renew it"
            )
        return token

    # -- state

    def apply(self, event: IdentityEvent) -> None:
        match event:
            case ScramCredential(user, mechanism):
                if (user, mechanism) not in self.credentials:
                    self.users[user] += 1
                self.credentials[user, mechanism] = event
                self.newest_keys[mechanism] = event.keys
            case ScramCredentialRemoved(user, mechanism):
                if self.credentials.pop((user, mechanism), None) is not None:
                    self.users[user] -= 1
                    if not self.users[user]:
                        del self.users[user]
            case SaltSecret(secret):
                self.salt_secret = secret
            case DelegationToken():
                self._remove_token(event.id)
                self.tokens[event.id] = event
                self.tokens_by_fingerprint[event.fingerprint] = event
            case DelegationTokenRemoved(token_id):
                self._remove_token(token_id)
            case _:
                assert_never(event)

    def _remove_token(self, token_id: str) -> None:
        before = self.tokens.pop(token_id, None)
        if before is not None:
            del self.tokens_by_fingerprint[before.fingerprint]


def is_owner_or_renewer(token: DelegationToken, principal: Principal) -> bool:
    return principal in (token.owner, token.requester, *token.renewers)


def _check_user(user: str) -> None:
    if not user:
        raise _unacceptable("the name of a user must not be empty")
    if len(user) > USER_LENGTH_MAX or not user.isprintable():
        raise _unacceptable(f"the name of a user has up to {USER_LENGTH_MAX} characters, all of them printable")


def _unacceptable(problem: str) -> Refusal:
    return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
