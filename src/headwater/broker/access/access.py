"""Who may do what: the part of the façade that every listener asks for a client's guard."""

from headwater.broker.access.guard import Guard
from headwater.broker.ports.metadata import Metadata
from headwater.config.broker import BrokerConfig
from headwater.security.acl import canonical_host
from headwater.security.authorizer import AclAuthorizer
from headwater.security.principals import Principal


class Access:
    def __init__(self, metadata: Metadata, config: BrokerConfig) -> None:
        self._authorizer: AclAuthorizer | None = None
        if config.has_authorizer:
            self._authorizer = AclAuthorizer(
                [str(each) for each in config.super_principals],
                allows_without_rules=config.allow_everyone_if_no_acl_found,
            )
            for acl in metadata.state.access.acls:
                self._authorizer.add(acl)

    @property
    def is_enforced(self) -> bool:
        return self._authorizer is not None

    def guard(self, principal: Principal, host: str) -> Guard:
        """The guard of one client, which is connected from `host`."""
        return Guard(principal, canonical_host(host), self._authorizer)
