"""Who clients are and what they may do: the part of the façade that every listener asks for a client's guard.

What a broker does not use it does not load: most have no users, enforce no rules and record nothing.
"""

import logging
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.broker.access.guard import Guard
from headwater.broker.audit.event import EventType
from headwater.broker.ports.metadata import Metadata
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.config.live import LiveConfig
from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import canonical_host
from headwater.security.principals import Principal, user

if TYPE_CHECKING:
    from headwater.broker.access.authentication import Authentication
    from headwater.broker.access.rules import AccessRules
    from headwater.broker.access.tokens import Tokens
    from headwater.broker.access.users import Users
    from headwater.broker.audit.audit_log import AuditLog

logger = logging.getLogger(__name__)


class Access:
    def __init__(self, metadata: Metadata, live_config: LiveConfig, clock: Clock, audit: "AuditLog | None") -> None:
        self.audit = audit
        self._metadata = metadata
        self._live_config = live_config
        self._clock = clock
        config = live_config.current
        self._node = f"broker {config.node_id}"
        self._is_started = False
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

    async def make_administrator(self, name: str) -> None:
        """Allow a user everything, also where no rules are enforced yet."""
        from headwater.broker.access.rules import AccessRules  # noqa: PLC0415
        from headwater.security.acl import all_permissions  # noqa: PLC0415

        rules = self._rules or AccessRules(self._metadata)
        await rules.create(all_permissions(str(user(name))))

    async def start(self) -> None:
        config = self._live_config.current
        if self.audit is not None:
            self._is_started = True
            self.audit.record_local(EventType.CLUSTER_JOIN, self._node, {"listeners": config.listeners})
        password_file = config.headwater_admin_password_file
        if password_file is not None and self.users.is_empty:
            await self._create_administrator(Path(password_file))
        if config.mechanisms_in_use:
            await self.authentication.start()

    async def _create_administrator(self, password_file: Path) -> None:
        from headwater.broker.access.users import ADMIN  # noqa: PLC0415
        from headwater.password_file import read_password  # noqa: PLC0415

        setting = "headwater.admin.password.file"
        password = read_password(password_file, setting)
        # The rules come first: once there is a user, no further start gets here.
        await self.make_administrator(ADMIN)
        await self.users.set_password(ADMIN, password)
        logger.info("created the first user, %r (%s)", ADMIN, setting)
        if self.audit is not None:
            self.audit.record_local(EventType.USER_CHANGE, f"user '{ADMIN}'", {"action": "add", "by": setting})

    async def stop(self) -> None:
        if self._authentication is not None:
            self._authentication.stop()
        if self.audit is not None:
            if self._is_started:
                self.audit.record_local(EventType.CLUSTER_LEAVE, self._node)
            await self.audit.stop()


def _open_rules(metadata: Metadata, config: BrokerConfig) -> "AccessRules":
    from headwater.broker.access.rules import AccessRules  # noqa: PLC0415

    rules = AccessRules(metadata)
    rules.authorizer.configure(
        [str(each) for each in config.super_principals], allows_without_rules=config.allow_everyone_if_no_acl_found
    )
    return rules
