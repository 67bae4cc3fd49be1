"""Settings of the broker. Topics and groups inherit from them what they do not set themselves.

The source of each value is remembered, for DescribeConfigs.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, dataclass_transform

from headwater.config.declaration import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Setting,
    Settings,
    Value,
    attribute_of,
    find_setting,
    in_milliseconds,
    settings_of,
)
from headwater.config.listener_overrides import ListenerOverride

NO_EFFECT = "Accepted for compatibility; it has no effect yet."

Declaring = TypeVar("Declaring", bound=type["BrokerSettings"])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def broker_settings_class(declaring: Declaring) -> Declaring:
    """As `settings_class`, without slots: BrokerConfig inherits from several classes, and Python cannot combine bases
    that have slots. There is one such object in a process, so its size does not matter."""
    decorate = dataclasses.dataclass(kw_only=True, init=False, repr=False, eq=False)
    return decorate(declaring)


@broker_settings_class
class BrokerSettings(Settings):
    # The sources of values that were set explicitly. A value that differs from its default without an entry here was
    # given to the constructor, which counts as static.
    origins: Mapping[str, ConfigSource] = dataclasses.field(
        default_factory=dict[str, ConfigSource], compare=False, repr=False
    )
    listener_overrides: tuple[ListenerOverride, ...] = dataclasses.field(default=(), repr=False)

    # Explicit values that others, set at run time, hide: strongest first.
    hidden: Mapping[str, tuple[ConfigSynonym, ...]] = dataclasses.field(
        default_factory=dict[str, tuple[ConfigSynonym, ...]], compare=False, repr=False
    )

    def check(self) -> None:
        """Refuse values that contradict each other."""

    def value_of(self, name: str) -> Value:
        """The value of the setting that Kafka calls `name`."""
        return getattr(self, attribute_of(name))

    def origin_of(self, name: str) -> ConfigSource:
        unset = self.value_of(name) == settings_of(type(self))[name].default
        return self.origins.get(name, ConfigSource.DEFAULT if unset else ConfigSource.STATIC_BROKER)

    def lookups(self, names: Sequence[str]) -> tuple[ConfigSynonym, ...]:
        """All values of settings with one meaning, strongest first: the first one is in effect."""
        explicit: list[ConfigSynonym] = []
        defaults: list[ConfigSynonym] = []
        for name in names:
            declared = settings_of(type(self))[name]
            explicit += self.explicit_values(declared)
            if declared.default is not None:
                defaults.append(ConfigSynonym(name, declared.disclosed(declared.default), ConfigSource.DEFAULT))
        return (*explicit, *defaults)

    def explicit_values(self, declared: Setting) -> tuple[ConfigSynonym, ...]:
        """The values that were set for one setting, strongest first."""
        origin = self.origin_of(declared.name)
        if origin is ConfigSource.DEFAULT:
            return ()
        value = declared.disclosed(self.value_of(declared.name))
        return ConfigSynonym(declared.name, value, origin), *self.hidden.get(declared.name, ())

    def resolve(self, declaring: type[Settings], overrides: Mapping[str, str], kind: str) -> dict[str, Any]:
        """The values, by attribute, of a resource that sets `overrides` itself and inherits the rest from here."""
        values: dict[str, Any] = {each.attribute: self._inherited(each) for each in settings_of(declaring).values()}
        for name, text in overrides.items():
            declared = find_setting(declaring, name, kind)
            values[declared.attribute] = declared.parse(text)
        return values

    def entries(
        self, declaring: type[Settings], overrides: Mapping[str, str], source: ConfigSource
    ) -> list[ConfigEntry]:
        """The settings, as DescribeConfigs shows them, of a resource that sets `overrides` itself. `source` is where
        such values come from."""
        return [self._entry(declared, overrides.get(name), source) for name, declared in settings_of(declaring).items()]

    def _entry(self, declared: Setting, override: str | None, source: ConfigSource) -> ConfigEntry:
        synonyms = self.lookups(declared.synonyms)
        value = declared.disclosed(self._inherited(declared))
        if override is not None:
            value = declared.normalize(override)
            synonyms = (ConfigSynonym(declared.name, value, source), *synonyms)
        return declared.entry(
            value, synonyms[0].source if synonyms else ConfigSource.DEFAULT, synonyms, read_only=False
        )

    def _inherited(self, declared: Setting) -> Value:
        for synonym in declared.synonyms:
            value = self.value_of(synonym)
            if value is not None:
                return in_milliseconds(synonym, value)
        return declared.default
