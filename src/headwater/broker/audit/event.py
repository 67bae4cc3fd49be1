"""What the audit log tells of: who did what, from where, to what, with which outcome."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import orjson

from headwater.ids import NodeId

VALUE_LENGTH_MAX = 1_000


class EventType(StrEnum):
    """Names that a filter may select by their first part: `topic.` is all that happens to topics."""

    AUTHENTICATION_SUCCESS = "auth.success"
    AUTHENTICATION_FAILURE = "auth.failure"
    ACCESS_DENIED = "access.denied"
    ACCESS_GRANTED = "access.granted"
    TOPIC_CREATE = "topic.create"
    TOPIC_DELETE = "topic.delete"
    TOPIC_MODIFY = "topic.modify"
    RECORDS_DELETE = "records.delete"
    CONFIG_CHANGE = "config.change"
    SCHEMA_REGISTER = "schema.register"
    SCHEMA_DELETE = "schema.delete"
    SCHEMA_MODIFY = "schema.modify"
    GROUP_DELETE = "group.delete"
    OFFSETS_DELETE = "offsets.delete"
    USER_CHANGE = "user.change"
    ACL_CHANGE = "acl.change"
    ROLE_CHANGE = "role.change"
    TOKEN_CHANGE = "token.change"  # noqa: S105 (a name, not a secret)
    CLUSTER_JOIN = "cluster.join"
    CLUSTER_LEAVE = "cluster.leave"
    SUPPRESSED = "audit.suppressed"


class Result(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    DENIED = "denied"


class AuditEvent(NamedTuple):
    type: EventType
    # User:ann; what a client that failed to authenticate claimed to be.
    principal: str
    # The client's address.
    host: str
    resource: str
    result: Result
    details: Mapping[str, str]

    def encoded(self, event_id: str, timestamp_ms: int, node_id: NodeId) -> bytes:
        """As JSON, in the form that `docs/security.md` describes. Clients choose names, so each value is bounded."""
        # Late import: it takes 0.6 MB, and most brokers record nothing.
        from datetime import UTC, datetime  # noqa: PLC0415

        return orjson.dumps(
            {
                "id": event_id,
                "timestamp": datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds"),
                "type": self.type.value,
                "user": _bounded(self.principal),
                "client_ip": _bounded(self.host),
                "resource": _bounded(self.resource),
                "result": self.result.value,
                "details": {name: _bounded(value) for name, value in self.details.items()},
                "node": node_id,
            }
        )


def _bounded(value: str) -> str:
    # Lone surrogates stand for bytes that are no UTF-8, and JSON cannot hold them.
    return value[:VALUE_LENGTH_MAX].encode("utf-8", "replace").decode()
