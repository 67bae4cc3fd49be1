"""Events of access: rules, roles, users and delegation tokens. Each has the whole state of its key, so that the log can
be compacted by key."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headwater.security.acl import Acl
from headwater.security.principals import Principal
from headwater.security.roles import Role, RoleGrant
from headwater.security.scram_keys import ScramKeys


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
    """What the broker keeps of a user's password, for one mechanism."""

    user: str
    mechanism: str
    keys: ScramKeys


class ScramCredentialRemoved(NamedTuple):
    user: str
    mechanism: str


class SaltSecret(NamedTuple):
    """From it follow the salts of users that do not exist, which must outlast a restart as those of users do."""

    value: bytes

    def __repr__(self) -> str:
        return "SaltSecret(...)"


class DelegationToken(NamedTuple):
    """A token with which clients act as its owner. As with a password, what verifies it is stored, not what its bearers
    have."""

    id: str
    fingerprint: bytes
    owner: Principal
    # Who asked for it: the owner, or somebody who may do so for the owner.
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    # No renewal moves its end beyond this time.
    max_ms: int
    # By mechanism.
    keys: Mapping[str, ScramKeys]


class DelegationTokenRemoved(NamedTuple):
    id: str


RuleEvent: TypeAlias = AclAdded | AclRemoved | RoleCreated | RoleDeleted | RoleGranted | RoleRevoked
IdentityEvent: TypeAlias = (
    ScramCredential | ScramCredentialRemoved | SaltSecret | DelegationToken | DelegationTokenRemoved
)
AccessEvent: TypeAlias = RuleEvent | IdentityEvent
