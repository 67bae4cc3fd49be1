"""AlterUserScramCredentials (key 51), v0: sets and deletes credentials. All changes of a user are made, or
none is."""

from collections.abc import Mapping, Sequence

from headwater.broker.access.users import Deletion, Upsertion, mechanism_name
from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = AlterUserScramCredentialsRequest


async def handle(request: AlterUserScramCredentialsRequest, context: Context) -> AlterUserScramCredentialsResponse:
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    denial = context.guard.denial(Operation.ALTER, CLUSTER)
    if denial is None:
        outcomes = await context.broker.access.users.alter(upsertions, deletions)
        for user, error in outcomes.items():
            context.guard.changed(EventType.USER_CHANGE, f"user '{user}'", error, _details(user, upsertions, deletions))
    else:
        outcomes = {each.user: denial for each in (*deletions, *upsertions)}
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


def _details(user: str, upsertions: Sequence[Upsertion], deletions: Sequence[Deletion]) -> Mapping[str, str]:
    """What was asked for, by mechanism."""
    changes = {"set": upsertions, "delete": deletions}
    mechanisms = {
        action: ",".join(mechanism_name(each.mechanism) for each in commands if each.user == user)
        for action, commands in changes.items()
    }
    return {action: names for action, names in mechanisms.items() if names}
