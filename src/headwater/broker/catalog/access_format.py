"""Events of access as records of the catalog: `access/` and what kind, then a readable key; the rest is JSON."""

from base64 import b64decode, b64encode
from typing import Any, Final

import orjson

from headwater.coordination.access.events import (
    AccessEvent,
    AclAdded,
    AclRemoved,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.security.acl import Acl, Operation, PatternType, Permission, ResourceType

PREFIX: Final = b"access/"
_ACL: Final = b"access/acl/"
_SCRAM: Final = b"access/scram/"


def encode(event: AccessEvent) -> tuple[bytes, bytes | None]:
    match event:
        case AclAdded(acl):
            return _acl_key(acl), b"{}"
        case AclRemoved(acl):
            return _acl_key(acl), None
        case ScramCredential():
            stored = {
                "salt": b64encode(event.salt).decode(),
                "stored_key": b64encode(event.stored_key).decode(),
                "server_key": b64encode(event.server_key).decode(),
                "iterations": event.iterations,
            }
            return _scram_key(event.user, event.mechanism), orjson.dumps(stored)
        case ScramCredentialRemoved(user, mechanism):
            return _scram_key(user, mechanism), None


def decode(key: bytes, value: bytes | None) -> AccessEvent | None:
    """Raises ValueError for a record that `encode` would not write; None for one of a newer version."""
    if key.startswith(_ACL):
        acl = _acl(orjson.loads(key[len(_ACL) :]))
        return AclRemoved(acl) if value is None else AclAdded(acl)
    if key.startswith(_SCRAM):
        match orjson.loads(key[len(_SCRAM) :]):
            case [str(user), str(mechanism)]:
                if value is None:
                    return ScramCredentialRemoved(user, mechanism)
                return _credential(user, mechanism, orjson.loads(value))
            case _:
                raise ValueError("a credential belongs to a user and a mechanism")
    return None


def _acl_key(acl: Acl) -> bytes:
    named = [acl.resource_type.name, acl.name, acl.pattern.name, acl.principal, acl.host]
    return _ACL + orjson.dumps([*named, acl.operation.name, acl.permission.name])


def _acl(stored: Any) -> Acl:
    match stored:
        case [str(kind), str(name), str(pattern), str(principal), str(host), str(operation), str(permission)]:
            try:
                return Acl(
                    ResourceType[kind],
                    name,
                    PatternType[pattern],
                    principal,
                    host,
                    Operation[operation],
                    Permission[permission],
                )
            except KeyError as error:
                raise ValueError(f"{error} is not known") from None
        case _:
            raise ValueError("a rule has seven parts")


def _scram_key(user: str, mechanism: str) -> bytes:
    return _SCRAM + orjson.dumps([user, mechanism])


def _credential(user: str, mechanism: str, found: Any) -> ScramCredential:
    match found:
        case {"salt": str(salt), "stored_key": str(stored), "server_key": str(server), "iterations": int(iterations)}:
            return ScramCredential(user, mechanism, _bytes(salt), _bytes(stored), _bytes(server), iterations)
        case _:
            raise ValueError("a credential has a salt, two keys and iterations")


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)
