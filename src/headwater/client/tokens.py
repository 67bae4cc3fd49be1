"""Administration of delegation tokens (KIP-48): a token lets its bearer act as its owner for a limited time.

Law: a token's HMAC, which is the password of its bearer, appears in no error, log or repr.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from headwater.client.cluster import Cluster
from headwater.client.errors import Refused, check
from headwater.errors import ErrorCode
from headwater.protocol.messages.security.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headwater.protocol.messages.security.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headwater.protocol.messages.security.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headwater.protocol.messages.security.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headwater.security.delegation_token import password_of
from headwater.security.principals import Principal, parse_principal

# As long as the broker's settings say.
BROKER_DEFAULT = -1
AT_ONCE = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """`id` is the user name and `password` the password of the bearer, who authenticates with SCRAM. Times are in ms
    since 1970; `max_ms` is the end that no renewal moves. A broker before Kafka 3.3 names no `requester`."""

    id: str
    owner: Principal
    requester: Principal | None
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        return password_of(self.hmac)


class TokenAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = BROKER_DEFAULT,
    ) -> DelegationToken:
        """A token for the client itself, or for another owner (`User:ann`) if rules allow that. `renewers` may renew
        and end it, too."""
        named = None if owner is None else parse_principal(owner)
        others = tuple(parse_principal(each) for each in renewers)
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if named is None else named.type,
            owner_principal_name=None if named is None else named.name,
            renewers=[CreatableRenewers(principal_type=each.type, principal_name=each.name) for each in others],
            max_lifetime_ms=max_lifetime_ms,
        )

        def read(response: CreateDelegationTokenResponse) -> DelegationToken:
            _check(response.error_code, "a delegation token cannot be created")
            return DelegationToken(
                response.token_id,
                Principal(response.principal_type, response.principal_name),
                _requester(response.token_requester_principal_type, response.token_requester_principal_name),
                others,
                response.issue_timestamp_ms,
                response.expiry_timestamp_ms,
                response.max_timestamp_ms,
                bytes(response.hmac),
            )

        return self._cluster.ask_controller(request, CreateDelegationTokenResponse, read)

    def describe(self, owners: Collection[str] | None = None) -> list[DelegationToken]:
        """The valid tokens that the client may see, of all owners or of these."""
        asked = None if owners is None else [parse_principal(each) for each in owners]
        request = DescribeDelegationTokenRequest(
            owners=None
            if asked is None
            else [DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name) for each in asked]
        )

        def read(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
            _check(response.error_code, "the delegation tokens")
            return [
                DelegationToken(
                    token.token_id,
                    Principal(token.principal_type, token.principal_name),
                    _requester(token.token_requester_principal_type, token.token_requester_principal_name),
                    tuple(Principal(each.principal_type, each.principal_name) for each in token.renewers),
                    token.issue_timestamp,
                    token.expiry_timestamp,
                    token.max_timestamp,
                    bytes(token.hmac),
                )
                for token in response.tokens
            ]

        return sorted(
            self._cluster.ask_controller(request, DescribeDelegationTokenResponse, read),
            key=lambda token: (token.owner, token.issued_ms, token.id),
        )

    def find(self, token_id: str) -> DelegationToken:
        """The token of that id, if it is valid and the client may see it."""
        for token in self.describe():
            if token.id == token_id:
                return token
        raise Refused(
            ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
            f"delegation token {token_id!r}",
            f"there is no delegation token {token_id!r} that is valid and that you may see",
        )

    def renew(self, hmac: bytes, period_ms: int = BROKER_DEFAULT) -> int:
        """Move the end of a token to `period_ms` from now; return the new end."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

        def read(response: RenewDelegationTokenResponse) -> int:
            _check(response.error_code, "the delegation token cannot be renewed")
            return response.expiry_timestamp_ms

        return self._cluster.ask_controller(request, RenewDelegationTokenResponse, read)

    def expire(self, hmac: bytes, period_ms: int = AT_ONCE) -> int:
        """Let a token end `period_ms` from now; return its end."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

        def read(response: ExpireDelegationTokenResponse) -> int:
            _check(response.error_code, "the delegation token cannot be ended")
            return response.expiry_timestamp_ms

        return self._cluster.ask_controller(request, ExpireDelegationTokenResponse, read)


_REASONS = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the broker has no delegation tokens (delegation.token.secret.key)",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "you have to authenticate first, and not with such a token",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "you may not do this for that owner",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "you neither own it nor may renew it",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "it has expired",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "it does not exist, or no longer",
    ErrorCode.POLICY_VIOLATION: "the broker has as many as it allows (headwater.delegation.tokens.max)",
}


def _check(code: int, subject: str) -> None:
    # Responses about tokens have no room for a message.
    reason = next((text for known, text in _REASONS.items() if known == code), None)
    check(code, subject, None if reason is None else f"{subject}: {reason}")


def _requester(kind: str, name: str) -> Principal | None:
    return Principal(kind, name) if kind else None
