"""What a client is told when its request is refused: HTTP's status for each of Kafka's codes, and problem details
(RFC 9457). The one place where errors of the façade become answers of HTTP.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.http.response import Headers, Response

CONTENT_TYPE = "application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True):
    """Why a request was refused (RFC 9457)."""

    # Of the HTTP status, in words.
    title: str
    status: int
    # For people.
    detail: str = ""
    # For programs: one of Kafka's codes.
    code: str = ""
    type: str = "about:blank"


class Rejection(HeadwaterError):
    """A request is refused with a status that is chosen where it is raised."""

    def __init__(
        self, status: int, detail: str, *, code: ErrorCode = ErrorCode.INVALID_REQUEST, headers: Headers = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.headers = headers


_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ErrorCode.TOPIC_DELETION_DISABLED,
    ErrorCode.SECURITY_DISABLED,
    ErrorCode.POLICY_VIOLATION,
)
_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID,
)
_CONFLICT = (
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.DUPLICATE_RESOURCE,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
)
_UNAVAILABLE = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
# Codes that are not here are the client's fault: 400.
_STATUSES: Mapping[ErrorCode, int] = {
    **dict.fromkeys(_FORBIDDEN, 403),
    **dict.fromkeys(_NOT_FOUND, 404),
    **dict.fromkeys(_CONFLICT, 409),
    **dict.fromkeys(_UNAVAILABLE, 503),
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.RECORD_LIST_TOO_LARGE: 413,
    ErrorCode.OFFSET_OUT_OF_RANGE: 416,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
}


def status_of(error: HeadwaterError) -> int:
    if isinstance(error, Rejection):
        return error.status
    return _STATUSES.get(error.code, 400)


def render_problem(error: HeadwaterError) -> Response:
    status = status_of(error)
    problem = Problem(HTTPStatus(status).phrase, status, str(error), error.code.name)
    headers = error.headers if isinstance(error, Rejection) else ()
    if status == 503:
        headers = (*headers, ("retry-after", "1"))
    return Response(status, msgspec.json.encode(problem), CONTENT_TYPE, headers)
