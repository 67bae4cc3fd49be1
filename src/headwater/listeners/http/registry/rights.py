"""Who may do what to a subject. The rights are those to its topic: who may write a topic may register its schemas.

The topic of a subject is its name without `-key` or `-value` behind it, and without its context.
"""

from collections.abc import Iterable
from typing import Final

from headwater.coordination.schemas import subjects
from headwater.listeners.http.request import Request
from headwater.security.acl import CLUSTER, Operation, Resource, topic

_SUFFIXES: Final = ("-value", "-key")


def resource_of(subject: str) -> Resource:
    name = subjects.split(subject).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    # Settings of a whole context.
    return topic(name) if name else CLUSTER


def check(request: Request, operation: Operation, subject: str) -> None:
    request.guard.check(operation, resource_of(subject))


def check_references(request: Request, subject: str, names: Iterable[str]) -> None:
    """A schema shows what it refers to."""
    for name in names:
        check(request, Operation.DESCRIBE, subjects.inside_context_of(subject, name))


def shown(request: Request, names: Iterable[str]) -> list[str]:
    """The subjects that the client may see."""
    guard = request.guard
    if guard.is_open:
        return list(names)
    return [name for name in names if guard.allows(Operation.DESCRIBE, resource_of(name), is_probe=True)]
