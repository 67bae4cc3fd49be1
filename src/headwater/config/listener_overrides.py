"""`listener.name.<name>.<setting>`: what one listener sets differently from the broker, as in Kafka.

Law: a setting that may stand behind the prefix is declared with `per_listener=True`, and its declaration checks the
overriding value, too.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from headwater.config.declaration import Setting, attribute_of, find_setting, settings_of
from headwater.errors import ConfigError

PREFIX = "listener.name."
_VARIABLE_PREFIX = "LISTENER_NAME_"


class ListenerOverride(NamedTuple):
    # In capitals, as `listeners` names it.
    listener: str
    setting: str
    value: Any

    @property
    def name(self) -> str:
        return override_name(self.listener, self.setting)


def override_name(listener: str, setting: str) -> str:
    return f"{PREFIX}{listener.lower()}.{setting}"


def split_name(declaring: type, name: str) -> tuple[str, Setting] | None:
    """The listener and the setting that `name` overrides for it; None if the name is that of a plain setting."""
    if not name.startswith(PREFIX):
        return None
    rest = name.removeprefix(PREFIX)
    # The names of listeners and of settings both contain dots.
    for overridable in _overridable(declaring):
        listener = rest.removesuffix(f".{overridable.name}")
        if listener and listener != rest:
            return listener.upper(), overridable
    raise ConfigError(
        f"{name[:200]!r} is not {PREFIX}NAME.SETTING with one of the settings that a listener may have of its own: "
        f"{', '.join(sorted(each.name for each in _overridable(declaring)))}"
    )


def find_overridable(declaring: type, name: str, kind: str) -> Setting:
    """As `find_setting`, and for the override of a listener the setting under its whole name."""
    found = split_name(declaring, name)
    if found is None:
        return find_setting(declaring, name, kind)
    listener, declared = found
    return declared._replace(name=override_name(listener, declared.name))


def name_of_variable(declaring: type, variable: str) -> str | None:
    """The whole name of the override that an environment variable (without HEADWATER_) sets."""
    rest = variable.removeprefix(_VARIABLE_PREFIX)
    if rest == variable:
        return None
    for overridable in _overridable(declaring):
        listener = rest.removesuffix("_" + attribute_of(overridable.name).upper())
        if listener and listener != rest:
            return override_name(listener, overridable.name)
    return None


def values_of(overrides: Iterable[ListenerOverride], listener: str) -> dict[str, Any]:
    """What a listener sets of its own, by attribute."""
    return {attribute_of(each.setting): each.value for each in overrides if each.listener == listener}


def _overridable(declaring: type) -> list[Setting]:
    """Longest first: a name may end like that of another."""
    found = [declared for declared in settings_of(declaring).values() if declared.per_listener]
    return sorted(found, key=lambda declared: -len(declared.name))
