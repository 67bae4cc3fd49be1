"""Who may do what: the part of the façade that every listener asks for a client's guard."""

from headwater.broker.access.guard import Guard
from headwater.broker.access.rules import AccessRules
from headwater.broker.audit.audit_log import AuditLog
from headwater.broker.ports.metadata import Metadata
from headwater.config.broker import BrokerConfig
from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import canonical_host
from headwater.security.principals import Principal


class Access:
    def __init__(self, metadata: Metadata, config: BrokerConfig, audit: AuditLog | None) -> None:
        self.audit = audit
        self.is_enforced = config.has_authorizer
        self.rules = AccessRules(metadata)
        self.rules.authorizer.configure(
            [str(each) for each in config.super_principals],
            allows_without_rules=config.allow_everyone_if_no_acl_found,
        )

    @property
    def enforced_rules(self) -> AccessRules:
        """The rules and roles; refused where nothing enforces them, so that nobody takes them for a protection."""
        if not self.is_enforced:
            raise Refusal(ErrorCode.SECURITY_DISABLED, "this broker enforces no rules (authorizer.class.name)")
        return self.rules

    def guard(self, principal: Principal, host: str) -> Guard:
        """The guard of one client, which is connected from `host`."""
        authorizer = self.rules.authorizer if self.is_enforced else None
        return Guard(principal, canonical_host(host), authorizer, self.audit)

    async def stop(self) -> None:
        if self.audit is not None:
            await self.audit.stop()
