"""Who clients are and what they may do: the part of the façade that every listener asks for a client's guard.

What a broker does not use it does not load: most have no users, enforce no rules and record nothing.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.broker.access.guard import Guard
from headwater.broker.ports.metadata import Metadata
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.config.live import LiveConfig
from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import canonical_host
from headwater.security.principals import Principal

if TYPE_CHECKING:
    from headwater.broker.access.authentication import Authentication
    from headwater.broker.access.rules import AccessRules
    from headwater.broker.access.tokens import Tokens
    from headwater.broker.access.users import Users
    from headwater.broker.audit.audit_log import AuditLog


class Access:
    def __init__(self, metadata: Metadata, live_config: LiveConfig, clock: Clock, audit: "AuditLog | None") -> None:
        self.audit = audit
        self._metadata = metadata
        self._live_config = live_config
        self._clock = clock
        config = live_config.current
        self._rules = _open_rules(metadata, config) if config.has_authorizer else None
        self._authentication: Authentication | None = None

    @cached_property
    def users(self) -> "Users":
        from headwater.broker.access.users import Users  # noqa: PLC0415

        return Users(self._metadata)

    @cached_property
    def tokens(self) -> "Tokens":
        from headwater.broker.access.tokens import Tokens  # noqa: PLC0415

        return Tokens(self._metadata, self._live_config, self._clock)

    @property
    def authentication(self) -> "Authentication":
        """How clients of SASL listeners prove who they are."""
        if self._authentication is None:
            from headwater.broker.access.authentication import Authentication  # noqa: PLC0415

            self._authentication = Authentication(self.users, self.tokens, self._live_config.current, self._clock)
        return self._authentication

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

    async def start(self) -> None:
        config = self._live_config.current
        password_file = config.headwater_admin_password_file
        if password_file is not None:
            administrator = await self.users.create_first(Path(password_file))
            if administrator is not None and self.is_enforced:
                await self.rules.allow_everything(administrator)
        if config.mechanisms_in_use:
            await self.authentication.start()

    async def stop(self) -> None:
        if self._authentication is not None:
            self._authentication.stop()
        if self.audit is not None:
            await self.audit.stop()


def _open_rules(metadata: Metadata, config: BrokerConfig) -> "AccessRules":
    from headwater.broker.access.rules import AccessRules  # noqa: PLC0415

    rules = AccessRules(metadata)
    rules.authorizer.configure(
        [str(each) for each in config.super_principals], allows_without_rules=config.allow_everyone_if_no_acl_found
    )
    return rules
