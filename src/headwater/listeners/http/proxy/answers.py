"""Answers of the REST proxy, and how it tells errors: by Confluent's codes, and in its words."""

from collections.abc import Mapping
from typing import Final

import msgspec

from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.http.problem import Rejection, status_of
from headwater.listeners.http.proxy.embedded_format import ANSWER_TYPE, answer_type
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response

_UNAUTHENTICATED, _FORBIDDEN = 40101, 40301
BAD_REQUEST: Final = 40002
TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
CONSUMER_NOT_FOUND: Final = 40403
FORMAT_MISMATCH: Final = 40601
SCHEMA_UNAVAILABLE: Final = 40801
CONSUMER_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
INVALID: Final = 422
KEY_SCHEMA_MISSING: Final = 42201
VALUE_SCHEMA_MISSING: Final = 42202
CONVERSION_FAILED: Final = 42203
INVALID_CONSUMER: Final = 42204
INVALID_SCHEMA: Final = 42205
KAFKA_ERROR: Final = 50002
RETRIABLE_ERROR: Final = 50003
NO_REGISTRY: Final = 50101
TOO_MANY: Final = 42901

_CODES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TOPIC_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: TOPIC_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID: CONSUMER_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION: ILLEGAL_STATE,
    ErrorCode.STALE_MEMBER_EPOCH: ILLEGAL_STATE,
    ErrorCode.FENCED_MEMBER_EPOCH: ILLEGAL_STATE,
}
# Of other refusals of the façade.
_CODES_BY_STATUS: Final = {400: BAD_REQUEST, 409: ILLEGAL_STATE, 500: KAFKA_ERROR, 503: RETRIABLE_ERROR}


class ErrorMessage(msgspec.Struct):
    """Why a request was refused: Confluent's code, whose first three digits are the status, and a text for people."""

    error_code: int
    message: str


class ProxyRefusal(HeadwaterError):
    """`number` is Confluent's error code."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number

    @property
    def status(self) -> int:
        return self.number if self.number < 1000 else self.number // 100


def render_error(error: HeadwaterError) -> Response:
    number = number_of(error)
    status = number if number < 1000 else number // 100
    headers = error.headers if isinstance(error, Rejection) else ()
    return Response(status, msgspec.json.encode(ErrorMessage(number, str(error))), ANSWER_TYPE, headers)


def number_of(error: HeadwaterError) -> int:
    if isinstance(error, ProxyRefusal):
        return error.number
    status = status_of(error)
    if isinstance(error, Rejection):
        return _UNAUTHENTICATED if status == 401 else status
    if status == 403:
        return _FORBIDDEN
    if error.code in _CODES:
        return _CODES[error.code]
    return _CODES_BY_STATUS.get(status, status)


def answer(request: Request, body: object) -> Response:
    return Response(200, msgspec.json.encode(body), answer_type(request))


def topic_not_found(topic: str) -> ProxyRefusal:
    return ProxyRefusal(TOPIC_NOT_FOUND, f"Topic {topic[:250]} not found.")


def partition_not_found(partition: object) -> ProxyRefusal:
    return ProxyRefusal(PARTITION_NOT_FOUND, f"Partition {str(partition)[:40]} not found.")
