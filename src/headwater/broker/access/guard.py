"""What one client may do. Every listener asks its client's guard before it calls the façade."""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from headwater.broker.audit.event import EventType, Result
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.security.acl import CLUSTER, OPERATIONS, Operation, Resource, ResourceType, topic
from headwater.security.principals import Principal

if TYPE_CHECKING:
    from headwater.broker.audit.audit_log import AuditLog
    from headwater.security.authorizer import AclAuthorizer, Decision

CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
# A client that works with more topics than this has their decisions made again.
TOPICS_MAX = 1_000


class Guard:
    """Without an authorizer the guard is open: every client may do everything."""

    __slots__ = ("_audit", "_authorizer", "_readable", "_version", "_writable", "host", "is_open", "principal")

    def __init__(
        self, principal: Principal, host: str, authorizer: "AclAuthorizer | None", audit: "AuditLog | None"
    ) -> None:
        """`host` is the client's address in its canonical form."""
        self._audit = audit
        self.principal = principal
        self.host = host
        self.is_open = authorizer is None
        self._authorizer = authorizer
        # The topics that the client may read and write, as far as it has, for as long as the rules stay the same.
        self._version = -1
        self._readable: set[str] = set()
        self._writable: set[str] = set()

    def allows(self, operation: Operation, resource: Resource, *, is_probe: bool = False) -> bool:
        """A probe asks for what to show to the client: its denials are not logged."""
        if self._authorizer is None:
            return True
        decision = self._authorizer.decide(self.principal, self.host, operation, resource)
        if not is_probe and (not decision.is_allowed or (self._audit is not None and self._audit.records_granted)):
            self._report(operation, resource, decision)
        return decision.is_allowed

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there can be a resource of the type that the client may do this to."""
        if self._authorizer is None:
            return True
        return self._authorizer.allows_any(self.principal, self.host, operation, resource_type).is_allowed

    def denial(self, operation: Operation, resource: Resource) -> Refusal | None:
        """Why the client may not do it; None if it may."""
        if self.allows(operation, resource):
            return None
        what = f"{self.principal} may not {operation.name.lower()} {resource}"
        return Refusal(CODES[resource.type], what)

    def check(self, operation: Operation, resource: Resource) -> None:
        """Raise the denial, if there is one."""
        denial = self.denial(operation, resource)
        if denial is not None:
            raise denial

    def check_creates_topic(self, name: str) -> None:
        """The right to create in the cluster includes every topic."""
        if not self.allows(Operation.CREATE, CLUSTER, is_probe=True):
            self.check(Operation.CREATE, topic(name))

    def check_makes_producer_id(self) -> None:
        """An idempotent producer needs to be able to write somewhere."""
        if not self.allows_any(Operation.WRITE, ResourceType.TOPIC):
            self.check(Operation.IDEMPOTENT_WRITE, CLUSTER)

    def reads(self, name: str) -> bool:
        """Whether the client may read the topic; as fast as a fetch needs it."""
        authorizer = self._authorizer
        if authorizer is None:
            return True
        if self._version == authorizer.version and name in self._readable:
            return True
        return self._decide(Operation.READ, name, self._readable, authorizer.version)

    def writes(self, name: str) -> bool:
        """Whether the client may write to the topic; as fast as a produce request needs it."""
        authorizer = self._authorizer
        if authorizer is None:
            return True
        if self._version == authorizer.version and name in self._writable:
            return True
        return self._decide(Operation.WRITE, name, self._writable, authorizer.version)

    def operations(self, resource: Resource) -> int:
        """What the client may do to the resource, as the bit field of Kafka's responses; 0 if not even describe it."""
        if not self.allows(Operation.DESCRIBE, resource, is_probe=True):
            return 0
        return sum(
            1 << operation for operation in OPERATIONS[resource.type] if self.allows(operation, resource, is_probe=True)
        )

    def _decide(self, operation: Operation, name: str, allowed: set[str], version: int) -> bool:
        if self._version != version:
            self._version = version
            self._readable.clear()
            self._writable.clear()
        is_allowed = self.allows(operation, topic(name))
        # A denial is decided again, so that each is reported.
        if is_allowed:
            if len(allowed) >= TOPICS_MAX:
                allowed.clear()
            allowed.add(name)
        return is_allowed

    def _report(self, operation: Operation, resource: Resource, decision: "Decision") -> None:
        if self._audit is None:
            return
        is_allowed, rule = decision
        self._audit.record(
            EventType.ACCESS_GRANTED if is_allowed else EventType.ACCESS_DENIED,
            self.principal,
            self.host,
            str(resource),
            Result.SUCCESS if is_allowed else Result.DENIED,
            {"operation": operation.name.lower(), "reason": str(rule)},
        )

    def changed(
        self, event_type: EventType, resource: str, error: HeadwaterError | None, details: Mapping[str, str] = {}
    ) -> None:
        """Something was changed on behalf of the client, or was not because of `error`."""
        if self._audit is not None:
            self._audit.changed(event_type, self.principal, self.host, resource, error, details)

    def change(
        self, event_type: EventType, resource: str, details: Mapping[str, str] = {}
    ) -> AbstractContextManager[None]:
        """Context manager, as `changed`: the block makes the change, or raises the error."""
        return nullcontext() if self._audit is None else self._change(event_type, resource, details)

    @contextmanager
    def _change(self, event_type: EventType, resource: str, details: Mapping[str, str]) -> Generator[None]:
        try:
            yield
        except HeadwaterError as error:
            self.changed(event_type, resource, error, details)
            raise
        self.changed(event_type, resource, None, details)
