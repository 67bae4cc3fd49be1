"""`ssl.principal.mapping.rules`: from the distinguished name of a client's certificate to the name of its user, as
Kafka's SslPrincipalMapper does it.

Expressions are matched by RE2, whose time is linear in the length of a name, which the client's authority chose.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeAlias, cast

from headwater.errors import ConfigError

DEFAULT = "DEFAULT"
# Per compiled expression.
_MEMORY_BYTES_MAX = 1 << 20
# The next rule, which may be empty, and its end.
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)|)"
    r"\s*(?:,|$)"
)
_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}

# The name that a rule makes of a distinguished name; None if it does not apply.
Rule: TypeAlias = Callable[[str], str | None]


class PrincipalMapping:
    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigError."""
        rules: list[Rule] = []
        position = 0
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ConfigError(
                    f"{text[position : position + 80]!r} is not {DEFAULT} and not of the form "
                    "RULE:pattern/replacement/ with L or U, or nothing, at its end"
                )
            position = found.end()
            if found["default"]:
                rules.append(str)
            elif found["pattern"] is not None:
                rules.append(_rule(found["pattern"], found["replacement"], found["case"]))
        return cls(rules)

    def name_of(self, distinguished_name: str) -> str | None:
        """The user's name, by the first rule that applies; None if none does."""
        for rule in self._rules:
            name = rule(distinguished_name)
            if name is not None:
                return name
        return None


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    compiled = _compile(pattern)
    expand = _replacement(replacement, compiled.groups)
    return partial(_apply, compiled, expand, _CASES[case])


def _apply(
    pattern: Any, expand: Callable[[Any], str], change_case: Callable[[str], str], distinguished_name: str
) -> str | None:
    if pattern.fullmatch(distinguished_name) is None:
        return None
    # As in Java, every match is replaced: `.*` matches twice, the second time the empty rest.
    return change_case(cast("str", pattern.sub(expand, distinguished_name)))


def _compile(pattern: str) -> Any:
    # Imported on first use: few brokers have rules.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (cast("type[Exception]", re2.error), UnicodeError) as error:
        text = b"".join(part for part in error.args if isinstance(part, bytes)).decode("utf-8", "replace")
        raise ConfigError(
            f"{pattern[:80]!r} is not an expression that RE2 understands (it has no look-around and no back "
            f"references): {text or error}"
        ) from None


def _replacement(text: str, group_count: int) -> Callable[[Any], str]:
    """What `text` stands for, in Java's syntax: `$1` is a group, or plain text if there is no such group; a backslash
    makes the next character plain."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\":
            parts.append(text[position])
            position += 1
        elif character == "$" and text[position : position + 1].isdecimal():
            position, part = _group(text, position, group_count)
            parts.append(part)
        elif character == "$":
            raise ConfigError(f"{text[:80]!r} has a $ with no number of a group behind it; \\$ is a plain one")
        else:
            parts.append(character)
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


def _group(text: str, position: int, group_count: int) -> tuple[int, str | int]:
    """The group behind a `$`: of its digits, as many as make the number of a group."""
    number = int(text[position])
    position += 1
    if number > group_count:
        return position, f"${number}"
    while text[position : position + 1].isdecimal() and number * 10 + int(text[position]) <= group_count:
        number = number * 10 + int(text[position])
        position += 1
    return position, number
