"""The start options of a client, and the settings that all librdkafka clients share."""

from typing import Any, Literal, NotRequired, TypedDict

SESSION_TIMEOUT_MS = 6000
HEARTBEAT_INTERVAL_MS = 200


class Options(TypedDict):
    role: str
    # Of a client in another language.
    command: NotRequired[list[str]]
    name: str
    directory: str
    bootstrap_servers: str
    topics: dict[str, int]
    # The topics to read or write; a copier and a zombie have two.
    topic: str
    target: NotRequired[str]
    keys: NotRequired[int]
    group: NotRequired[str]
    protocol: NotRequired[Literal["classic", "consumer"]]
    committed_only: NotRequired[bool]
    transactional_id: NotRequired[str]
    per_second: NotRequired[int]
    at_a_time: NotRequired[int]
    # For some records: how long they may be delivered to share groups.
    ttl_ms: NotRequired[int]
    # Of a member of a share group: the group; the topic's id; how long a record is held; whether it accepts all;
    # whether it is librdkafka's client instead of a raw one.
    share_group: NotRequired[str]
    topic_id: NotRequired[str]
    lock_ms: NotRequired[int]
    is_calm: NotRequired[bool]
    is_client: NotRequired[bool]


def connection(options: Options) -> dict[str, Any]:
    return {
        "bootstrap.servers": options["bootstrap_servers"],
        "client.id": options["name"],
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 100,
        # A restarted broker has the same address.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }


def consumer(options: Options) -> dict[str, Any]:
    assert "group" in options
    assert "protocol" in options
    settings: dict[str, Any] = {
        **connection(options),
        "group.id": options["group"],
        "group.protocol": options["protocol"],
        "isolation.level": "read_committed" if options.get("committed_only") else "read_uncommitted",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    if options["protocol"] == "classic":
        settings["session.timeout.ms"] = SESSION_TIMEOUT_MS
        settings["heartbeat.interval.ms"] = HEARTBEAT_INTERVAL_MS
    return settings
