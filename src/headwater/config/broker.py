"""The broker's settings: Kafka's names where Kafka has the setting, `headwater.` before the name where it has not.

Every queue, frame, cache and wait of the broker has its limit here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from headwater.config.broker_settings import NO_EFFECT, broker_settings_class
from headwater.config.declaration import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    ConfigEntry,
    ConfigSource,
    find_setting,
    setting,
    settings_of,
)
from headwater.config.group_defaults import GroupDefaults
from headwater.config.topic_defaults import TopicDefaults
from headwater.config.transaction_defaults import TransactionDefaults
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError

# Settings that stand in for one another, strongest first, as DescribeConfigs tells them.
_SYNONYMS = {
    names[0]: names
    for names in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
}


@broker_settings_class
class BrokerConfig(TopicDefaults, GroupDefaults, TransactionDefaults):
    # Who and where
    node_id: int = setting(INT, "node.id", 1, "The number of this broker, unlike that of every other.", minimum=0)
    broker_rack: str | None = setting(
        STRING, "broker.rack", None, "The rack or zone that the broker is in, told to clients that fetch nearby."
    )
    listeners: str = setting(
        STRING,
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "The address to listen on, as PLAINTEXT://HOST:PORT or HOST:PORT; port 0 takes a free one.",
        check=Endpoint.parse,
    )
    advertised_listeners: str | None = setting(
        STRING,
        "advertised.listeners",
        None,
        "The address that clients are told to connect to; unset tells them the one that is listened on.",
        check=Endpoint.parse,
    )
    log_dir: str = setting(
        STRING, "log.dir", "./headwater-data", "The directory that holds all data, for one broker alone.", pattern=".+"
    )

    # Topics
    auto_create_topics_enable: bool = setting(
        BOOLEAN,
        "auto.create.topics.enable",
        True,
        "Whether a topic comes into being when a client first asks for it.",
        dynamic=True,
    )
    num_partitions: int = setting(
        INT,
        "num.partitions",
        3,
        "How many partitions a topic gets where its creator does not say. (Kafka gives it 1.)",
        minimum=1,
        maximum=10_000,
        dynamic=True,
    )
    default_replication_factor: int = setting(
        INT,
        "default.replication.factor",
        1,
        f"How many replicas a partition gets where its creator does not say. {NO_EFFECT}",
        minimum=1,
        maximum=32_767,
        dynamic=True,
    )
    delete_topic_enable: bool = setting(
        BOOLEAN, "delete.topic.enable", True, "Whether clients may delete topics.", dynamic=True
    )
    headwater_topics_max: int = setting(
        INT,
        "headwater.topics.max",
        100_000,
        "How many topics the broker holds before it refuses to create more.",
        minimum=1,
        dynamic=True,
    )
    headwater_partitions_max: int = setting(
        INT,
        "headwater.partitions.max",
        200_000,
        "How many partitions the broker holds, over all topics, before it refuses to create more.",
        minimum=1,
        dynamic=True,
    )
    headwater_create_partitions_max: int = setting(
        INT,
        "headwater.create.partitions.max",
        10_000,
        "How many partitions one request may create. (Kafka's limit is the same, and fixed.)",
        minimum=1,
        dynamic=True,
    )

    # Connections and requests
    socket_request_max_bytes: int = setting(
        INT,
        "socket.request.max.bytes",
        104_857_600,
        "The largest request; a longer one closes its connection.",
        minimum=1024,
        dynamic=True,
    )
    headwater_socket_request_max_bytes_unauthenticated: int = setting(
        INT,
        "headwater.socket.request.max.bytes.unauthenticated",
        524_288,
        f"The largest request on a connection that still has to authenticate. {NO_EFFECT}",
        minimum=1024,
        dynamic=True,
    )
    queued_max_request_bytes: int = setting(
        LONG,
        "queued.max.request.bytes",
        268_435_456,
        "The memory for requests in flight over all connections; beyond it, reading stops until there is room. "
        "(Kafka has no limit.)",
        minimum=1_048_576,
        dynamic=True,
    )
    max_connections: int = setting(
        INT,
        "max.connections",
        10_000,
        "How many connections are open at once; a further one is closed as it arrives. (Kafka has no limit.)",
        minimum=1,
        dynamic=True,
    )
    max_connections_per_ip: int = setting(
        INT,
        "max.connections.per.ip",
        10_000,
        "How many connections one address has open at once; a further one is closed as it arrives. "
        "(Kafka has no limit.)",
        minimum=1,
        dynamic=True,
    )
    connections_max_idle_ms: int = setting(
        LONG,
        "connections.max.idle.ms",
        600_000,
        "How long a connection may be silent before it is closed; -1 is for ever.",
        minimum=1,
        also=(-1,),
        dynamic=True,
    )
    headwater_request_read_timeout_ms: int = setting(
        INT,
        "headwater.request.read.timeout.ms",
        30_000,
        "How long a request that has begun may take to arrive whole before its connection is closed.",
        minimum=1,
        dynamic=True,
    )
    headwater_response_write_timeout_ms: int = setting(
        INT,
        "headwater.response.write.timeout.ms",
        30_000,
        "How long a client may take no byte of its response before its connection is closed.",
        minimum=1,
        dynamic=True,
    )
    headwater_connection_requests_max: int = setting(
        INT,
        "headwater.connection.requests.max",
        128,
        "How many requests of one connection are handled at once; the next ones wait in the socket.",
        minimum=1,
        maximum=65_536,
        dynamic=True,
    )
    headwater_socket_buffer_idle_bytes: int = setting(
        INT,
        "headwater.socket.buffer.idle.bytes",
        4096,
        "The read buffer of a connection between requests; it grows only while a larger request arrives.",
        minimum=64,
        maximum=1_048_576,
    )
    socket_send_buffer_bytes: int = setting(
        INT,
        "socket.send.buffer.bytes",
        -1,
        "SO_SNDBUF of connections; -1 leaves it to the operating system. (Kafka's default is 102400.)",
        minimum=1024,
        also=(-1,),
    )
    socket_receive_buffer_bytes: int = setting(
        INT,
        "socket.receive.buffer.bytes",
        -1,
        "SO_RCVBUF of connections; -1 leaves it to the operating system. (Kafka's default is 102400.)",
        minimum=1024,
        also=(-1,),
    )
    socket_listen_backlog_size: int = setting(
        INT,
        "socket.listen.backlog.size",
        1024,
        "How many connections may wait to be accepted. (Kafka's default is 50.)",
        minimum=1,
    )
    fetch_max_bytes: int = setting(
        INT,
        "fetch.max.bytes",
        57_671_680,
        "The most bytes of records that one fetch gives back, whatever it asks for.",
        minimum=1024,
        dynamic=True,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        INT,
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many fetch sessions are remembered.",
        minimum=0,
        maximum=1_000_000,
    )
    headwater_batch_decompressed_bytes_max: int = setting(
        LONG,
        "headwater.batch.decompressed.bytes.max",
        134_217_728,
        "The most bytes that a compressed batch may turn into; a batch beyond it is refused as corrupt.",
        minimum=1024,
        dynamic=True,
    )
    headwater_shutdown_timeout_ms: int = setting(
        INT,
        "headwater.shutdown.timeout.ms",
        30_000,
        "How long a stopping broker waits for requests in flight before it flushes and leaves.",
        minimum=0,
        dynamic=True,
    )

    # Storage
    headwater_flush_interval_ms: int = setting(
        INT,
        "headwater.flush.interval.ms",
        1000,
        "How soon a record that was acknowledged with acks=1 is on disk, unless headwater.flush is os.",
        minimum=1,
        dynamic=True,
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        INT,
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often the recovery points are written, behind which a crash leaves nothing to scan.",
        minimum=1,
    )
    log_retention_check_interval_ms: int = setting(
        LONG,
        "log.retention.check.interval.ms",
        300_000,
        "How often logs are looked over for segments to delete.",
        minimum=1,
        dynamic=True,
    )
    log_initial_task_delay_ms: int = setting(
        LONG,
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start retention, compaction and checkpoints begin.",
        minimum=0,
    )
    log_cleaner_enable: bool = setting(
        BOOLEAN, "log.cleaner.enable", True, "Whether logs whose policy is compact are compacted.", dynamic=True
    )
    log_cleaner_backoff_ms: int = setting(
        LONG,
        "log.cleaner.backoff.ms",
        15_000,
        "How long the cleaner rests after it found no log to compact.",
        minimum=1,
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        LONG,
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "The memory for the keys of one compaction; a log with more keys is compacted in several rounds.",
        minimum=1_048_576,
        dynamic=True,
    )
    producer_id_expiration_ms: int = setting(
        INT,
        "producer.id.expiration.ms",
        86_400_000,
        "How long a partition remembers the sequence of a producer that has gone silent.",
        minimum=1,
        dynamic=True,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        INT,
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often partitions are looked over for producers to forget.",
        minimum=1,
    )

    # What the process says of itself
    headwater_log_format: str = setting(
        STRING,
        "headwater.log.format",
        "auto",
        "The form of the process's own log: human text, JSON lines, or auto (human on a terminal, JSON elsewhere).",
        allowed=("auto", "human", "json"),
    )
    headwater_log_level: str = setting(
        STRING,
        "headwater.log.level",
        "info",
        "The least severity that the process logs.",
        allowed=("debug", "info", "warning", "error"),
        dynamic=True,
    )

    @classmethod
    def from_values(cls, values: Mapping[str, str], source: ConfigSource = ConfigSource.STATIC_BROKER) -> Self:
        """The settings that `values` gives by Kafka's names, and defaults."""
        return cls().changed(values, source)

    def changed(self, values: Mapping[str, str], source: ConfigSource = ConfigSource.DYNAMIC_BROKER) -> Self:
        """These settings with `values` over them."""
        changes: dict[str, Any] = {}
        for name, text in values.items():
            declared = find_setting(BrokerConfig, name, "broker")
            if source is not ConfigSource.STATIC_BROKER and not declared.dynamic:
                raise declared.refusal("can only be set when the broker starts")
            changes[declared.attribute] = declared.parse(text)
        origins = {**self.origins, **dict.fromkeys(values, source)}
        config = dataclasses.replace(self, origins=origins, **changes)
        config.check()
        return config

    def reloaded(self, fresh: Self) -> tuple[Self, tuple[str, ...]]:
        """These settings with what may change while running taken from `fresh`, and the names of those that differ
        there but wait for the next start."""
        declared = settings_of(BrokerConfig).items()
        changes: dict[str, Any] = {each.attribute: fresh.value_of(name) for name, each in declared if each.dynamic}
        origins = {name: (fresh if each.dynamic else self).origin_of(name) for name, each in declared}
        config = dataclasses.replace(self, origins=origins, **changes)
        config.check()
        return config, tuple(name for name, _ in declared if config.value_of(name) != fresh.value_of(name))

    def check(self) -> None:
        """Refuses values that contradict each other."""
        super().check()
        if self.log_cleaner_min_compaction_lag_ms > self.log_cleaner_max_compaction_lag_ms:
            raise ConfigError(
                f"log.cleaner.min.compaction.lag.ms ({self.log_cleaner_min_compaction_lag_ms}) is more than "
                f"log.cleaner.max.compaction.lag.ms ({self.log_cleaner_max_compaction_lag_ms})"
            )
        advertised = self.advertised
        if advertised is None and self.listener.wildcard:
            raise ConfigError(
                f"listeners: clients cannot connect to {self.listener}; set advertised.listeners to an address "
                "that they can reach"
            )
        if advertised is not None and (advertised.wildcard or not advertised.port):
            raise ConfigError(f"advertised.listeners: clients cannot connect to {advertised}")
        if self.socket_request_max_bytes > self.queued_max_request_bytes:
            raise ConfigError(
                f"socket.request.max.bytes ({self.socket_request_max_bytes}) is more than queued.max.request.bytes "
                f"({self.queued_max_request_bytes}), so the largest request would never be read"
            )

    @property
    def listener(self) -> Endpoint:
        return Endpoint.parse(self.listeners)

    @property
    def advertised(self) -> Endpoint | None:
        """The address to tell clients; None stands for the one that is listened on."""
        return None if self.advertised_listeners is None else Endpoint.parse(self.advertised_listeners)


def describe(broker: BrokerConfig) -> list[ConfigEntry]:
    """What DescribeConfigs tells about the broker."""
    return [
        declared.entry(
            declared.disclosed(broker.value_of(name)),
            broker.origin_of(name),
            broker.lookups(_SYNONYMS.get(name, (name,))),
            read_only=not declared.dynamic,
        )
        for name, declared in settings_of(BrokerConfig).items()
    ]
