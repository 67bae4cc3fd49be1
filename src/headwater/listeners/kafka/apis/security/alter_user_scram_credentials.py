"""AlterUserScramCredentials (key 51), v0: sets and deletes credentials. All changes of a user are made, or
none is."""

from headwater.broker.access.users import Deletion, Upsertion
from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

REQUEST = AlterUserScramCredentialsRequest


async def handle(request: AlterUserScramCredentialsRequest, context: Context) -> AlterUserScramCredentialsResponse:
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    outcomes = await context.broker.users.alter(upsertions, deletions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else str(error),
            )
            for user, error in outcomes.items()
        ]
    )
