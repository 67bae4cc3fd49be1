"""Metadata and rule sets of a schema: checked, and completed from the settings and the version before."""

from collections.abc import Mapping
from typing import Any, Final, cast

from headwater.coordination.schemas import refusals
from headwater.coordination.schemas.refusals import INVALID_RULE_SET, RegistryRefusal
from headwater.coordination.schemas.terms import Content, Json, SubjectConfig

VERSION_PROPERTY: Final = "confluent:version"
_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")


def completed(
    content: Content, config: SubjectConfig, previous: Content | None, version: int | None, *, is_asked: bool
) -> Content:
    """The content as it is registered: what it does not say itself it has from the version before, and the settings of
    the subject add to it. `version` is the number that it gets, if it gets one; metadata name it if they did before, or
    if the client asked for a number."""
    metadata, rule_set = content.metadata, content.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = _merged(_merged(config.get("defaultMetadata"), metadata), config.get("overrideMetadata"))
    rule_set = _merged_rules(_merged_rules(config.get("defaultRuleSet"), rule_set), config.get("overrideRuleSet"))
    properties = cast("Json", (metadata or {}).get("properties") or {})
    if version is not None and (is_asked or VERSION_PROPERTY in properties):
        metadata = {**(metadata or {}), "properties": {**properties, VERSION_PROPERTY: str(version)}}
    return Content(content.type, content.text, content.references, metadata, rule_set)


def without_version(metadata: Json | None) -> Json | None:
    """Metadata as far as they tell schemas apart."""
    if metadata is None:
        return None
    properties = cast("Json", metadata.get("properties") or {})
    if VERSION_PROPERTY not in properties:
        return metadata
    rest = {name: value for name, value in properties.items() if name != VERSION_PROPERTY}
    kept = {name: value for name, value in metadata.items() if name != "properties"}
    if rest:
        kept["properties"] = rest
    return kept or None


def _merged(first: Json | None, second: Json | None) -> Json | None:
    if first is None or second is None:
        return second if first is None else first
    merged: dict[str, Any] = {}
    for name in ("tags", "properties"):
        both = {**cast("Json", first.get(name) or {}), **cast("Json", second.get(name) or {})}
        if both:
            merged[name] = both
    sensitive = sorted({*(first.get("sensitive") or ()), *(second.get("sensitive") or ())})
    if sensitive:
        merged["sensitive"] = sensitive
    return merged


def _merged_rules(first: Json | None, second: Json | None) -> Json | None:
    if first is None or second is None:
        return second if first is None else first
    merged: dict[str, Any] = {}
    for kind in _RULE_LISTS:
        by_name = {rule["name"]: rule for rules in (first, second) for rule in rules.get(kind) or ()}
        if by_name:
            merged[kind] = list(by_name.values())
    enable_at = second.get("enableAt") or first.get("enableAt")
    if enable_at:
        merged["enableAt"] = enable_at
    return merged


def read_metadata(value: Any) -> Json | None:
    """What a client sends, or a refusal."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise refusals.invalid_schema("metadata is an object")
    stated = cast("dict[str, Any]", value)
    metadata: dict[str, Any] = {}
    tags, properties, sensitive = (stated.get(name) for name in ("tags", "properties", "sensitive"))
    if tags:
        if not isinstance(tags, dict) or not all(_is_texts(each) for each in cast("Json", tags).values()):
            raise refusals.invalid_schema("the tags of metadata are arrays of strings by path")
        metadata["tags"] = tags
    if properties:
        values = cast("Json", properties).values() if isinstance(properties, dict) else [None]
        if not all(isinstance(each, str) for each in values):
            raise refusals.invalid_schema("the properties of metadata are strings by name")
        metadata["properties"] = properties
    if sensitive:
        if not _is_texts(sensitive):
            raise refusals.invalid_schema("the sensitive properties of metadata are an array of strings")
        metadata["sensitive"] = sensitive
    return metadata


def read_rule_set(value: Any) -> Json | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RegistryRefusal(INVALID_RULE_SET, "a rule set is an object")
    stated = cast("dict[str, Any]", value)
    rule_set: dict[str, Any] = {}
    for kind in _RULE_LISTS:
        rules = stated.get(kind)
        if not rules:
            continue
        if not isinstance(rules, list):
            raise RegistryRefusal(INVALID_RULE_SET, f"{kind} is an array of rules")
        names: set[str] = set()
        for rule in cast("list[Any]", rules):
            _check_rule(rule, names)
        rule_set[kind] = rules
    if stated.get("enableAt"):
        rule_set["enableAt"] = stated["enableAt"]
    return rule_set


def _check_rule(rule: Any, names: set[str]) -> None:
    if not isinstance(rule, dict):
        raise RegistryRefusal(INVALID_RULE_SET, "a rule is an object")
    stated = cast("dict[str, Any]", rule)
    name = stated.get("name")
    if not isinstance(name, str) or not name:
        raise RegistryRefusal(INVALID_RULE_SET, "Missing rule name")
    if name in names:
        raise RegistryRefusal(INVALID_RULE_SET, f"Found rule with duplicate name '{name}'")
    names.add(name)
    if not isinstance(stated.get("type"), str):
        raise RegistryRefusal(INVALID_RULE_SET, f"rule '{name}': Missing rule type")
    params = stated.get("params")
    if params is not None and not isinstance(params, Mapping):
        raise RegistryRefusal(INVALID_RULE_SET, f"rule '{name}': params is an object")
    if stated.get("tags") is not None and not _is_texts(stated["tags"]):
        raise RegistryRefusal(INVALID_RULE_SET, f"rule '{name}': tags is an array of strings")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value))
