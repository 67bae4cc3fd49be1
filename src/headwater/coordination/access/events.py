"""Events of access: rules, roles, users. Each has the whole state of its key, so that compaction by key loses none."""

from typing import NamedTuple, TypeAlias

from headwater.security.acl import Acl
from headwater.security.roles import Role, RoleGrant


class AclAdded(NamedTuple):
    acl: Acl


class AclRemoved(NamedTuple):
    acl: Acl


class RoleCreated(NamedTuple):
    role: Role


class RoleDeleted(NamedTuple):
    name: str


class RoleGranted(NamedTuple):
    grant: RoleGrant


class RoleRevoked(NamedTuple):
    grant: RoleGrant


class ScramCredential(NamedTuple):
    """What a broker keeps of a password (RFC 5802): enough to verify it, not enough to log in with."""

    user: str
    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Leaves out the keys: an attacker can try passwords against them."""
        return f"ScramCredential(user={self.user!r}, mechanism={self.mechanism!r})"


class ScramCredentialRemoved(NamedTuple):
    user: str
    mechanism: str


AccessEvent: TypeAlias = (
    AclAdded
    | AclRemoved
    | RoleCreated
    | RoleDeleted
    | RoleGranted
    | RoleRevoked
    | ScramCredential
    | ScramCredentialRemoved
)
