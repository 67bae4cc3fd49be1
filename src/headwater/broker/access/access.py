"""Who may do what: the part of the façade that every listener asks for a client's guard."""

from typing import TYPE_CHECKING

from headwater.broker.access.guard import Guard
from headwater.broker.ports.metadata import Metadata
from headwater.config.broker import BrokerConfig
from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import canonical_host
from headwater.security.principals import Principal

if TYPE_CHECKING:
    from headwater.broker.access.rules import AccessRules
    from headwater.broker.audit.audit_log import AuditLog


class Access:
    def __init__(self, metadata: Metadata, config: BrokerConfig, audit: "AuditLog | None") -> None:
        self.audit = audit
        self._rules = _open_rules(metadata, config) if config.has_authorizer else None

    @property
    def is_enforced(self) -> bool:
        return self._rules is not None

    @property
    def rules(self) -> "AccessRules":
        """The rules and roles; refused where nothing enforces them, so that nobody takes them for a protection."""
        if self._rules is None:
            raise Refusal(ErrorCode.SECURITY_DISABLED, "this broker enforces no rules (authorizer.class.name)")
        return self._rules

    def guard(self, principal: Principal, host: str) -> Guard:
        """The guard of one client, which is connected from `host`."""
        authorizer = None if self._rules is None else self._rules.authorizer
        return Guard(principal, canonical_host(host), authorizer, self.audit)

    async def stop(self) -> None:
        if self.audit is not None:
            await self.audit.stop()


def _open_rules(metadata: Metadata, config: BrokerConfig) -> "AccessRules":
    # Late import: most brokers enforce no rules.
    from headwater.broker.access.rules import AccessRules  # noqa: PLC0415

    rules = AccessRules(metadata)
    rules.authorizer.configure(
        [str(each) for each in config.super_principals], allows_without_rules=config.allow_everyone_if_no_acl_found
    )
    return rules
