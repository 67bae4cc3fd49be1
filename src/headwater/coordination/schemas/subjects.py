"""Names of subjects, and the contexts that they are in: `:.context:subject`, or `subject` in the default context."""

import re
from typing import Final, NamedTuple

from headwater.coordination.schemas.refusals import INVALID_SUBJECT, RegistryRefusal

DEFAULT_CONTEXT: Final = "."
# Its settings hold for all contexts.
GLOBAL_CONTEXT: Final = ".__GLOBAL"
# Stands for every context.
WILDCARD: Final = ":*:"
NAME_LENGTH_MAX: Final = 1000
_RESERVED: Final = ("__GLOBAL", "__EMPTY")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CONTEXT: Final = re.compile(r"[A-Za-z0-9._-]*")


class Subject(NamedTuple):
    """Begins its context with a dot."""

    context: str
    name: str

    @property
    def qualified(self) -> str:
        return self.prefix + self.name

    @property
    def prefix(self) -> str:
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"


def split(qualified: str) -> Subject:
    if qualified.startswith(WILDCARD):
        return Subject("*", qualified[len(WILDCARD) :])
    if not qualified.startswith(":."):
        return Subject(DEFAULT_CONTEXT, qualified)
    context, _, name = qualified[1:].partition(":")
    return Subject(context, name)


def normalized(qualified: str) -> str:
    """The name under which a subject is stored: `:.:orders` is `orders`."""
    return split(qualified).qualified


def context_of(qualified: str) -> str:
    return split(qualified).context


def inside_context_of(parent: str, subject: str) -> str:
    """A subject as another one refers to it: in the same context, unless it names one."""
    named = split(subject)
    if named.context != DEFAULT_CONTEXT:
        return named.qualified
    return Subject(context_of(parent), named.name).qualified


def check(subject: str, *, is_for_config: bool = False) -> None:
    named = split(subject)
    is_bad = (
        not subject
        or len(subject) > NAME_LENGTH_MAX
        or _CONTROL.search(subject) is not None
        or (not is_for_config and (not named.name or named.name in _RESERVED or named.context == GLOBAL_CONTEXT))
        or (named.context != DEFAULT_CONTEXT and not _CONTEXT.fullmatch(named.context))
    )
    if is_bad:
        raise RegistryRefusal(INVALID_SUBJECT, f"The specified subject '{subject[:NAME_LENGTH_MAX]}' is not a valid.")


def is_context(subject: str) -> bool:
    return not split(subject).name


def is_default_context(subject: str) -> bool:
    """Whether settings of this name are those of the default context, which are stored without a name."""
    return split(subject) == Subject(DEFAULT_CONTEXT, "")
