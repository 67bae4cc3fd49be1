"""DescribeDelegationToken (key 41), v1-3: the valid tokens that the client owns, asked for or may renew. v3 tells who
asked for a token."""

from headwater.broker.access.tokens import TokenWithHmac
from headwater.coordination.access.events import DelegationToken
from headwater.coordination.access.identities import is_owner_or_renewer
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headwater.security.acl import Operation, token_resource, user_resource
from headwater.security.principals import Principal

REQUEST = DescribeDelegationTokenRequest


def handle(request: DescribeDelegationTokenRequest, context: Context) -> DescribeDelegationTokenResponse:
    owners = request.owners
    asked = None if owners is None else {Principal(each.principal_type, each.principal_name) for each in owners}
    try:
        context.check_may_use_tokens()
        described = context.broker.access.tokens.describe(asked)
    except HeadwaterError as error:
        return DescribeDelegationTokenResponse(error_code=error.code, tokens=[])
    return DescribeDelegationTokenResponse(
        tokens=[_described(each) for each in described if _is_shown(each.token, context)]
    )


def _is_shown(token: DelegationToken, context: Context) -> bool:
    guard = context.guard
    return is_owner_or_renewer(token, guard.principal) or (
        not guard.is_open
        and (
            guard.allows(Operation.DESCRIBE, token_resource(token.id), is_probe=True)
            or guard.allows(Operation.DESCRIBE_TOKENS, user_resource(token.owner), is_probe=True)
        )
    )


def _described(described: TokenWithHmac) -> DescribedDelegationToken:
    token = described.token
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=described.hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
