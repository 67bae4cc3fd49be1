"""Live settings of Kafka's broker that this one does not need. They are kept and described, so that tools which declare
them work, and no code reads them."""

from typing import Final

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, DOUBLE, INT, INT64_MAX, LONG, Declared, SettingType, setting

_DOUBLE_MAX: Final = 1.7976931348623157e308


def _unneeded(
    value_type: SettingType, name: str, default: Declared, in_kafka: str, minimum: float | None = None
) -> Declared:
    documentation = f"In Kafka, {in_kafka}. Accepted for compatibility; it has no effect here."
    return setting(value_type, name, default, documentation, minimum=minimum, dynamic=True)


@broker_settings_class
class CompatibilitySettings(BrokerSettings):
    # Threads
    background_threads: int = _unneeded(INT, "background.threads", 10, "the threads for background work", 1)
    num_io_threads: int = _unneeded(INT, "num.io.threads", 8, "the threads that handle requests", 1)
    num_network_threads: int = _unneeded(INT, "num.network.threads", 3, "the threads that serve each listener", 1)
    num_recovery_threads_per_data_dir: int = _unneeded(
        INT, "num.recovery.threads.per.data.dir", 2, "the threads that open the logs of a directory", 1
    )
    num_replica_fetchers: int = _unneeded(
        INT, "num.replica.fetchers", 1, "the threads that replicate from each other broker", 1
    )

    # The cleaner
    log_cleaner_threads: int = _unneeded(INT, "log.cleaner.threads", 1, "the threads that compact logs", 0)
    log_cleaner_io_buffer_size: int = _unneeded(
        INT, "log.cleaner.io.buffer.size", 524_288, "the bytes of the cleaner's buffers", 0
    )
    log_cleaner_io_buffer_load_factor: float = _unneeded(
        DOUBLE, "log.cleaner.io.buffer.load.factor", 0.9, "how full the cleaner's table of keys may be"
    )
    log_cleaner_io_max_bytes_per_second: float = _unneeded(
        DOUBLE, "log.cleaner.io.max.bytes.per.second", _DOUBLE_MAX, "the bytes that the cleaner moves in a second"
    )

    # Replication
    leader_replication_throttled_rate: int = _unneeded(
        LONG, "leader.replication.throttled.rate", INT64_MAX, "the bytes a second to throttled followers", 0
    )
    follower_replication_throttled_rate: int = _unneeded(
        LONG, "follower.replication.throttled.rate", INT64_MAX, "the bytes a second from throttled leaders", 0
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = _unneeded(
        LONG,
        "replica.alter.log.dirs.io.max.bytes.per.second",
        INT64_MAX,
        "the bytes a second between the directories of a broker",
        0,
    )

    # Groups
    group_coordinator_cached_buffer_max_bytes: int = _unneeded(
        INT, "group.coordinator.cached.buffer.max.bytes", 1_048_588, "the bytes of a write buffer that is reused", 0
    )

    # Tiered storage
    follower_fetch_last_tiered_offset_enable: bool = _unneeded(
        BOOLEAN, "follower.fetch.last.tiered.offset.enable", False, "whether new followers skip what is tiered"
    )
    remote_fetch_max_wait_ms: int = _unneeded(
        INT, "remote.fetch.max.wait.ms", 500, "how long a fetch waits for tiered records", 1
    )
    remote_list_offsets_request_timeout_ms: int = _unneeded(
        LONG, "remote.list.offsets.request.timeout.ms", 30_000, "how long a lookup of a tiered offset may take", 1
    )
    remote_log_index_file_cache_total_size_bytes: int = _unneeded(
        LONG, "remote.log.index.file.cache.total.size.bytes", 1 << 30, "the room for indexes of tiered segments", 1
    )
    remote_log_manager_copier_thread_pool_size: int = _unneeded(
        INT, "remote.log.manager.copier.thread.pool.size", 10, "the threads that copy to tiered storage", 1
    )
    remote_log_manager_expiration_thread_pool_size: int = _unneeded(
        INT, "remote.log.manager.expiration.thread.pool.size", 10, "the threads that expire tiered segments", 1
    )
    remote_log_manager_follower_thread_pool_size: int = _unneeded(
        INT, "remote.log.manager.follower.thread.pool.size", 2, "the threads of followers for tiered storage", 1
    )
    remote_log_manager_copy_max_bytes_per_second: int = _unneeded(
        LONG, "remote.log.manager.copy.max.bytes.per.second", INT64_MAX, "the bytes a second to tiered storage", 1
    )
    remote_log_manager_fetch_max_bytes_per_second: int = _unneeded(
        LONG, "remote.log.manager.fetch.max.bytes.per.second", INT64_MAX, "the bytes a second from tiered storage", 1
    )
    remote_log_reader_threads: int = _unneeded(
        INT, "remote.log.reader.threads", 10, "the threads that read from tiered storage", 1
    )
