"""DescribeUserScramCredentials (key 50), v0: the mechanisms for which users have credentials; of all users, or of those
that are named."""

from collections import Counter

from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = DescribeUserScramCredentialsRequest


def handle(request: DescribeUserScramCredentialsRequest, context: Context) -> DescribeUserScramCredentialsResponse:
    denial = context.guard.denial(Operation.DESCRIBE, CLUSTER)
    if denial is not None:
        return DescribeUserScramCredentialsResponse(error_code=denial.code, error_message=str(denial), results=[])
    times_named = Counter(each.name for each in request.users or ())
    described = context.broker.access.users.describe(times_named or None)
    results: list[DescribeUserScramCredentialsResult] = []
    for user, infos in described.items():
        problem: tuple[ErrorCode, str | None] = (ErrorCode.NONE, None)
        if times_named[user] > 1:
            problem = ErrorCode.DUPLICATE_RESOURCE, f"user '{user[:40]}' is named {times_named[user]} times"
        elif not infos:
            problem = ErrorCode.RESOURCE_NOT_FOUND, f"user '{user[:40]}' has no credential"
        results.append(
            DescribeUserScramCredentialsResult(
                user=user,
                error_code=problem[0],
                error_message=problem[1],
                credential_infos=[
                    CredentialInfo(mechanism=each.mechanism, iterations=each.iterations)
                    for each in (() if problem[0] else infos)
                ],
            )
        )
    return DescribeUserScramCredentialsResponse(results=results)
