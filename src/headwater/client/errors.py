"""The errors of the client: connections that fail and refusals of the broker. Each says whether a retry may help."""

from collections.abc import Sequence
from typing import TypeVar

from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import TopicPartition
from headwater.printable import printable

# The errors that Kafka's own clients retry: their causes are temporary, most often a leader that moves.
_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
_EXPLANATIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist",
    ErrorCode.LEADER_NOT_AVAILABLE: "it has no leader at the moment",
    ErrorCode.MESSAGE_TOO_LARGE: "it is larger than the topic's max.message.bytes",
    ErrorCode.TOPIC_ALREADY_EXISTS: "it exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the name is not allowed; letters, digits, '.', '_' and '-' are, up to 249",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's disk failed",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the time-out is longer than the broker allows (transaction.max.timeout.ms)",
    ErrorCode.INVALID_GROUP_ID: "the name is not allowed for a group",
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group are subscribed to the topic; stop them first",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "it has as many members as the broker allows",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and this is none of them",
    ErrorCode.STALE_MEMBER_EPOCH: "the group has moved on; the next poll takes part in it again",
}
_MESSAGE_LENGTH_MAX = 1_000

T = TypeVar("T")


class ClientError(HeadwaterError):
    """Any failure of a client's operation: the base class of all errors in this module."""

    @property
    def is_retriable(self) -> bool:
        return self.code in _RETRIABLE


class ConnectionLost(ClientError):
    """A broker cannot be reached, closed the connection, or did not answer in time. It may or may not have done what
    the request asked for."""

    code = ErrorCode.NETWORK_EXCEPTION


class Refused(ClientError):
    """The broker answered with an error code. `subject` names the thing that was asked about, `message` is the broker's
    own text if it sent one."""

    def __init__(self, code: int, subject: str, message: str | None = None) -> None:
        try:
            self.code = ErrorCode(code)
            name = self.code.name
        except ValueError:
            name = f"error {code}, which is newer than this client"
        reason = printable(message[:_MESSAGE_LENGTH_MAX]) if message else _EXPLANATIONS.get(self.code)
        if reason is None:
            text = f"{subject}: {name}"
        elif subject.lower() in reason.lower():
            text = f"{reason} ({name})"
        else:
            text = f"{subject}: {reason} ({name})"
        super().__init__(text)


class AuthenticationFailed(ClientError):
    """The client or the broker did not accept the other's identity, or they share no SASL mechanism. A retry does not
    help."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedApi(ClientError):
    """The broker and this client have no version of the API in common."""

    code = ErrorCode.UNSUPPORTED_VERSION


class UnknownTopic(ClientError):
    """The topic or partition does not exist, not even after the time that a broker may take to learn of a new one."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def is_retriable(self) -> bool:
        return False


class UnknownGroup(ClientError):
    """The group does not exist, or is of another type than the request is for."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class UnknownTransactionalId(ClientError):
    """No producer has used this transactional id, or the coordinator has expired it after long disuse."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class OffsetOutOfRange(ClientError):
    """The partition has no record at this offset: retention removed it, or it lies beyond the end. Waiting does not
    help."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, partition: TopicPartition, offset: int, earliest: int, latest: int) -> None:
        super().__init__(f"{partition} has offsets {earliest} to {latest}, not {offset}")
        self.partition = partition
        self.offset = offset
        self.earliest = earliest
        self.latest = latest


def check(code: int, subject: str, message: str | None = None) -> None:
    """Raise Refused unless `code` is NONE. `subject` and `message` go into its text."""
    if code != ErrorCode.NONE:
        raise Refused(code, subject, message)


def only(results: Sequence[T]) -> T:
    """Return the single result of a request about a single thing."""
    if len(results) != 1:
        raise ClientError(f"the broker's answer holds {len(results)} results where 1 was asked for")
    return results[0]
