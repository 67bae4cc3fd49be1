"""The options that a user gives to `format("headwater")`, read by name and type; errors name the option to change.

Law: an unknown option is an error. A misspelt `startingOffset` must not read a topic from the wrong end.
"""

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Final

from headwater.errors import ConfigError

_INT64_MAX: Final = 2**63 - 1
_BOOLEANS: Final = {"true": True, "false": False}
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"\s*(\d{1,12})\s*(ms|s|m|h|d)\s*")

# Options with this prefix are settings for the Kafka client, and for the client of a schema registry.
CLIENT_PREFIX: Final = "kafka."
REGISTRY_PREFIX: Final = "schema.registry."

# Options that Spark itself adds to a user's, and options of Spark's Kafka source that have no meaning here.
_SPARKS_OWN: Final = frozenset(
    {
        "path",
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
    }
)


class Options:
    """`known` contains all allowed names. Names are case-insensitive, as everywhere in Spark."""

    def __init__(self, given: Mapping[str, str], known: Collection[str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in known}
        for name in self._given:
            if name in names or name in _SPARKS_OWN or name.startswith((CLIENT_PREFIX, REGISTRY_PREFIX)):
                continue
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {names[near[0]]!r}?" if near else f". There are: {', '.join(sorted(known))}"
            raise ConfigError(f"format('headwater') has no option {name!r} here{hint}")

    @property
    def is_empty(self) -> bool:
        return not self._given

    def client_settings(self) -> dict[str, str]:
        """The settings for the Kafka client, without the prefix."""
        return {
            name.removeprefix(CLIENT_PREFIX): value
            for name, value in self._given.items()
            if name.startswith(CLIENT_PREFIX)
        }

    def registry_settings(self) -> dict[str, str]:
        return {name: value for name, value in self._given.items() if name.startswith(REGISTRY_PREFIX)}

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        text = self._given.get(name.lower(), default).strip().lower()
        if text not in choices:
            raise ConfigError(f"option {name!r} is one of {', '.join(choices)}, not {text!r}")
        return text

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        value = _BOOLEANS.get(text.strip().lower())
        if value is None:
            raise ConfigError(f"option {name!r} is true or false, not {text!r}")
        return value

    def integer(self, name: str, *, minimum: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"option {name!r} is a whole number, not {text!r}") from None
        if not minimum <= value <= _INT64_MAX:
            raise ConfigError(f"option {name!r} is at least {minimum} and at most {_INT64_MAX}, not {value}")
        return value

    def duration_ms(self, name: str, default: str) -> int:
        text = self.text(name) or default
        match = _DURATION.fullmatch(text.lower())
        if match is None:
            raise ConfigError(f"option {name!r} is a time such as '500ms', '30s' or '15m', not {text!r}")
        return int(match[1]) * _UNITS_MS[match[2]]
