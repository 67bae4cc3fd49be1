"""Access: rules and users, the part of the catalog that says who may do what. Pure, as the catalog's machine."""

from typing import assert_never

from headwater.coordination.access.events import (
    AccessEvent,
    AclAdded,
    AclRemoved,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.security.acl import Acl


class AccessMachine:
    def __init__(self) -> None:
        # Rises with every change of a rule: cached decisions of an earlier version are outdated.
        self.version = 0
        self.acls: dict[Acl, None] = {}
        # By user and mechanism.
        self.credentials: dict[tuple[str, str], ScramCredential] = {}

    def apply(self, event: AccessEvent) -> None:
        match event:
            case AclAdded(acl):
                self.version += 1
                self.acls[acl] = None
            case AclRemoved(acl):
                self.version += 1
                self.acls.pop(acl, None)
            case ScramCredential():
                self.credentials[event.user, event.mechanism] = event
            case ScramCredentialRemoved(user, mechanism):
                self.credentials.pop((user, mechanism), None)
            case _:
                assert_never(event)
