"""What one client may do. Every listener asks its client's guard before it calls the façade."""

import logging

from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import OPERATIONS, Operation, Resource, ResourceType, topic
from headwater.security.authorizer import AclAuthorizer
from headwater.security.principals import Principal

logger = logging.getLogger(__name__)

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

    __slots__ = ("_authorizer", "_readable", "_version", "_writable", "host", "is_open", "principal")

    def __init__(self, principal: Principal, host: str, authorizer: AclAuthorizer | None) -> None:
        """`host` is the client's address in its canonical form."""
        self.principal = principal
        self.host = host
        self.is_open = authorizer is None
        self._authorizer = authorizer
        # Decisions on topics that the client reads and writes, for as long as the rules stay the same.
        self._version = -1
        self._readable: dict[str, bool] = {}
        self._writable: dict[str, bool] = {}

    def allows(self, operation: Operation, resource: Resource, *, is_probe: bool = False) -> bool:
        """A probe asks for what to show to the client: its denials are not logged."""
        if self._authorizer is None:
            return True
        decision = self._authorizer.decide(self.principal, self.host, operation, resource)
        if not decision.is_allowed and not is_probe:
            self._report(operation, resource, decision.rule)
        return decision.is_allowed

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there can be a resource of the type that the client may do this to."""
        if self._authorizer is None:
            return True
        return self._authorizer.allows_any(self.principal, self.host, operation, resource_type).is_allowed

    def refusal(self, operation: Operation, resource: Resource) -> ErrorCode:
        """NONE if the client may do it, else the code that the resource's type has for that."""
        return ErrorCode.NONE if self.allows(operation, resource) else CODES[resource.type]

    def check(self, operation: Operation, resource: Resource) -> None:
        """As `refusal`, for listeners that answer with a text."""
        if not self.allows(operation, resource):
            what = f"{self.principal} may not {operation.name.lower()} {resource}"
            raise Refusal(CODES[resource.type], what)

    def reads(self, name: str) -> bool:
        """Whether the client may read the topic; as fast as a fetch needs it."""
        if self._version != self._rules_version:
            self._forget()
        allowed = self._readable.get(name)
        return self._decide(Operation.READ, name, self._readable) if allowed is None else allowed

    def writes(self, name: str) -> bool:
        """Whether the client may write to the topic; as fast as a produce request needs it."""
        if self._version != self._rules_version:
            self._forget()
        allowed = self._writable.get(name)
        return self._decide(Operation.WRITE, name, self._writable) if allowed is None else allowed

    def operations(self, resource: Resource) -> int:
        """What the client may do to the resource, as the bit field of Kafka's responses."""
        return sum(
            1 << operation for operation in OPERATIONS[resource.type] if self.allows(operation, resource, is_probe=True)
        )

    @property
    def _rules_version(self) -> int:
        return 0 if self._authorizer is None else self._authorizer.version

    def _decide(self, operation: Operation, name: str, decided: dict[str, bool]) -> bool:
        allowed = self.allows(operation, topic(name))
        # A denial is decided again, so that each is reported.
        if allowed:
            if len(decided) >= TOPICS_MAX:
                decided.clear()
            decided[name] = allowed
        return allowed

    def _forget(self) -> None:
        self._version = self._rules_version
        self._readable.clear()
        self._writable.clear()

    def _report(self, operation: Operation, resource: Resource, reason: object) -> None:
        logger.info("%s from %s may not %s %s: %s", self.principal, self.host, operation.name.lower(), resource, reason)
