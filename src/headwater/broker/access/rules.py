"""Rules and roles: how every listener changes and lists them, and the authorizer that decides by them.

The authorizer is kept in step with the catalog: it learns of a change when the change is committed.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from headwater.broker.ports.metadata import Metadata
from headwater.coordination.access.events import AccessEvent, AclAdded, AclRemoved, RoleGranted, RoleRevoked
from headwater.coordination.access.machine import RemovalOutcome
from headwater.errors import HeadwaterError
from headwater.security.acl import Acl, AclFilter
from headwater.security.authorizer import AclAuthorizer
from headwater.security.roles import READY_ROLES, Role, RoleGrant

logger = logging.getLogger(__name__)


class AccessRules:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._state = metadata.state.access
        self.authorizer = AclAuthorizer()
        self._follow([AclAdded(acl) for acl in self._state.acls])
        self._follow([RoleGranted(grant) for grant in self._state.grants])

    # -- ACLs

    async def create(self, acls: Sequence[Acl]) -> list[HeadwaterError | None]:
        """Add each rule that is not refused; give the refusals."""
        async with self._metadata.change_lock:
            outcomes = self._state.decide_add_acls(acls)
            await self._commit([each for each in outcomes if isinstance(each, AclAdded)])
            return [each if isinstance(each, HeadwaterError) else None for each in outcomes]

    async def delete(self, filters: Sequence[AclFilter]) -> list[RemovalOutcome]:
        """Remove the rules that any of the filters selects; give, for each filter, these rules or why it is refused."""
        async with self._metadata.change_lock:
            outcomes: list[RemovalOutcome] = []
            for outcome in self._state.decide_remove_acls(filters):
                outcomes.append(outcome)
                # A filter may be compared with every rule there is. Other clients are served in between.
                await asyncio.sleep(0)
            removed = {acl: None for found in outcomes if not isinstance(found, HeadwaterError) for acl in found}
            await self._commit([AclRemoved(acl) for acl in removed])
            return outcomes

    def describe(self, wanted: AclFilter) -> Sequence[Acl]:
        return self._state.select(wanted)

    # -- roles

    def roles(self) -> Mapping[str, Role]:
        """The ready ones and those that were created."""
        return {**READY_ROLES, **self._state.roles}

    def grants(self) -> Iterable[RoleGrant]:
        return self._state.grants

    async def create_role(self, role: Role) -> None:
        async with self._metadata.change_lock:
            await self._commit(self._state.decide_create_role(role))

    async def delete_role(self, name: str) -> None:
        async with self._metadata.change_lock:
            await self._commit(self._state.decide_delete_role(name))

    async def grant(self, grant: RoleGrant) -> None:
        async with self._metadata.change_lock:
            await self._commit(self._state.decide_grant(grant))

    async def revoke(self, grant: RoleGrant) -> None:
        async with self._metadata.change_lock:
            await self._commit(self._state.decide_revoke(grant))

    # -- changes

    async def _commit(self, events: Sequence[AccessEvent]) -> None:
        if not events:
            return
        await self._metadata.commit(events)
        self._follow(events)
        logger.info("changed who may do what: %d change%s", len(events), "" if len(events) == 1 else "s")

    def _follow(self, events: Iterable[AccessEvent]) -> None:
        for event in events:
            match event:
                case AclAdded(acl):
                    self.authorizer.add(acl)
                case AclRemoved(acl):
                    self.authorizer.remove(acl)
                case RoleGranted(grant):
                    for acl in self._state.granted_by(grant):
                        self.authorizer.add(acl)
                case RoleRevoked(grant):
                    for acl in self._state.granted_by(grant):
                        self.authorizer.remove(acl)
                case _:
                    # A role changes nothing before it is granted.
                    pass
