"""Events of access as records of the catalog: `access/` and what kind, then a readable key; the rest is JSON."""

from base64 import b64decode, b64encode
from enum import IntEnum
from typing import Any, Final, TypeVar, cast

import orjson

from headwater.coordination.access.events import (
    AccessEvent,
    AclAdded,
    AclRemoved,
    DelegationToken,
    DelegationTokenRemoved,
    RoleCreated,
    RoleDeleted,
    RoleGranted,
    RoleRevoked,
    SaltSecret,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from headwater.security.principals import Principal
from headwater.security.roles import Role, RoleGrant
from headwater.security.scram_keys import ScramKeys

E = TypeVar("E", bound=IntEnum)

PREFIX: Final = b"access/"
_ACL: Final = b"access/acl/"
_ROLE: Final = b"access/role/"
_GRANT: Final = b"access/grant/"
_SCRAM: Final = b"access/scram/"
_SALT_SECRET: Final = b"access/salt-secret"
_TOKEN: Final = b"access/token/"


def encode(event: AccessEvent) -> tuple[bytes, bytes | None]:
    match event:
        case AclAdded(acl):
            return _acl_key(acl), b"{}"
        case AclRemoved(acl):
            return _acl_key(acl), None
        case RoleCreated(role):
            operations = {kind.name: sorted(each.name for each in named) for kind, named in role.permissions.items()}
            return _ROLE + role.name.encode(), orjson.dumps(operations)
        case RoleDeleted(name):
            return _ROLE + name.encode(), None
        case RoleGranted(grant):
            return _grant_key(grant), b"{}"
        case RoleRevoked(grant):
            return _grant_key(grant), None
        case ScramCredential(user, mechanism, keys):
            return _scram_key(user, mechanism), orjson.dumps(_stored_keys(keys))
        case ScramCredentialRemoved(user, mechanism):
            return _scram_key(user, mechanism), None
        case SaltSecret(secret):
            return _SALT_SECRET, orjson.dumps(_text(secret))
        case DelegationToken():
            return _TOKEN + event.id.encode(), orjson.dumps(_stored_token(event))
        case DelegationTokenRemoved(token_id):
            return _TOKEN + token_id.encode(), None


def decode(key: bytes, value: bytes | None) -> AccessEvent | None:
    """Raises ValueError for a record that `encode` would not write; None for one of a newer version."""
    if key.startswith(_ACL):
        acl = _acl(orjson.loads(key[len(_ACL) :]))
        return AclRemoved(acl) if value is None else AclAdded(acl)
    if key.startswith(_ROLE):
        name = key[len(_ROLE) :].decode()
        return RoleDeleted(name) if value is None else RoleCreated(_role(name, orjson.loads(value)))
    if key.startswith(_GRANT):
        grant = _grant(orjson.loads(key[len(_GRANT) :]))
        return RoleRevoked(grant) if value is None else RoleGranted(grant)
    if key.startswith(_SCRAM):
        match orjson.loads(key[len(_SCRAM) :]):
            case [str(user), str(mechanism)]:
                if value is None:
                    return ScramCredentialRemoved(user, mechanism)
                return ScramCredential(user, mechanism, _keys(orjson.loads(value)))
            case _:
                raise ValueError("a credential belongs to a user and a mechanism")
    if key == _SALT_SECRET and value is not None:
        return SaltSecret(_bytes(orjson.loads(value)))
    if key.startswith(_TOKEN):
        token_id = key[len(_TOKEN) :].decode()
        return DelegationTokenRemoved(token_id) if value is None else _token(token_id, orjson.loads(value))
    return None


def _acl_key(acl: Acl) -> bytes:
    named = [acl.resource_type.name, acl.name, acl.pattern.name, acl.principal, acl.host]
    return _ACL + orjson.dumps([*named, acl.operation.name, acl.permission.name])


def _acl(stored: Any) -> Acl:
    match stored:
        case [str(kind), str(name), str(pattern), str(principal), str(host), str(operation), str(permission)]:
            return Acl(
                _member(ResourceType, kind),
                name,
                _member(PatternType, pattern),
                principal,
                host,
                _member(Operation, operation),
                _member(Permission, permission),
            )
        case _:
            raise ValueError("a rule has seven parts")


def _role(name: str, stored: Any) -> Role:
    if not isinstance(stored, dict):
        raise ValueError("a role has operations by resource type")
    permissions = cast("dict[str, Any]", stored)
    return Role(
        name,
        {
            _member(ResourceType, kind): frozenset(_member(Operation, each) for each in _texts(operations))
            for kind, operations in permissions.items()
        },
    )


def _grant_key(grant: RoleGrant) -> bytes:
    role, principal, resource_type, name, pattern = grant
    return _GRANT + orjson.dumps([role, principal, resource_type.name, name, pattern.name])


def _grant(stored: Any) -> RoleGrant:
    match stored:
        case [str(role), str(principal), str(kind), str(name), str(pattern)]:
            return RoleGrant(role, principal, _member(ResourceType, kind), name, _member(PatternType, pattern))
        case _:
            raise ValueError("a grant has five parts")


def _texts(stored: object) -> list[str]:
    if not isinstance(stored, list) or not all(isinstance(each, str) for each in cast("list[object]", stored)):
        raise ValueError("names are expected")
    return cast("list[str]", stored)


def _member(known: type[E], name: str) -> E:
    try:
        return known[name]
    except KeyError:
        raise ValueError(f"{name[:100]!r} is not known") from None


def _scram_key(user: str, mechanism: str) -> bytes:
    return _SCRAM + orjson.dumps([user, mechanism])


def _stored_keys(keys: ScramKeys) -> dict[str, str | int]:
    return {
        "salt": _text(keys.salt),
        "stored_key": _text(keys.stored_key),
        "server_key": _text(keys.server_key),
        "iterations": keys.iterations,
    }


def _keys(found: Any) -> ScramKeys:
    match found:
        case {"salt": str(salt), "stored_key": str(stored), "server_key": str(server), "iterations": int(iterations)}:
            return ScramKeys(_bytes(salt), _bytes(stored), _bytes(server), iterations)
        case _:
            raise ValueError("a credential has a salt, two keys and iterations")


def _stored_token(token: DelegationToken) -> dict[str, Any]:
    return {
        "fingerprint": _text(token.fingerprint),
        "owner": list(token.owner),
        "requester": list(token.requester),
        "renewers": [list(renewer) for renewer in token.renewers],
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
        "keys": {mechanism: _stored_keys(keys) for mechanism, keys in token.keys.items()},
    }


def _token(token_id: str, found: Any) -> DelegationToken:
    try:
        return DelegationToken(
            token_id,
            _bytes(found["fingerprint"]),
            _principal(found["owner"]),
            _principal(found["requester"]),
            tuple(_principal(each) for each in found["renewers"]),
            int(found["issued_ms"]),
            int(found["expires_ms"]),
            int(found["max_ms"]),
            {mechanism: _keys(stored) for mechanism, stored in found["keys"].items()},
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError("a delegation token has an owner, times and keys") from None


def _principal(found: Any) -> Principal:
    match found:
        case [str(kind), str(name)]:
            return Principal(kind, name)
        case _:
            raise ValueError("a principal has a type and a name")


def _text(content: bytes) -> str:
    return b64encode(content).decode()


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("bytes are stored as text")
    return b64decode(text, validate=True)
