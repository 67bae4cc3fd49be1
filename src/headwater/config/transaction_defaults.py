"""The broker settings of transactions, under the names that Kafka gives them."""

from headwater.config.broker_settings import NO_EFFECT, BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, LONG, setting


@broker_settings_class
class TransactionDefaults(BrokerSettings):
    transaction_max_timeout_ms: int = setting(
        INT,
        "transaction.max.timeout.ms",
        900_000,
        "The longest that a producer may ask for its transactions to stay open (transaction.timeout.ms).",
        minimum=1,
    )
    transactional_id_expiration_ms: int = setting(
        INT,
        "transactional.id.expiration.ms",
        604_800_000,
        "How long a transactional id is remembered that nobody uses.",
        minimum=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        INT,
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often transactional ids are looked through for those that have expired.",
        minimum=1,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        INT,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        f"In Kafka, how often open transactions are looked through; here each ends on time. {NO_EFFECT}",
        minimum=1,
    )
    transaction_partition_verification_enable: bool = setting(
        BOOLEAN,
        "transaction.partition.verification.enable",
        True,
        "Whether the first records of a transaction in a partition are refused unless the coordinator knows of them: "
        "otherwise a request that comes too late may leave a transaction open for ever.",
        dynamic=True,
    )
    transaction_two_phase_commit_enable: bool = setting(
        BOOLEAN,
        "transaction.two.phase.commit.enable",
        False,
        f"Whether producers may take part in two-phase commits. They are refused. {NO_EFFECT}",
    )
    transaction_state_log_num_partitions: int = setting(
        INT,
        "transaction.state.log.num.partitions",
        50,
        "How many partitions __transaction_state has; it must not change once the topic is there.",
        minimum=1,
    )
    transaction_state_log_segment_bytes: int = setting(
        INT,
        "transaction.state.log.segment.bytes",
        16_777_216,
        "The size at which a segment of __transaction_state is closed; closed ones can be compacted, which bounds what "
        "a start has to read. (Kafka's default is 100 MiB.)",
        minimum=1_048_576,
    )
    transaction_state_log_replication_factor: int = setting(
        INT,
        "transaction.state.log.replication.factor",
        1,
        f"How many replicas __transaction_state has. (Kafka's default is 3.) {NO_EFFECT}",
        minimum=1,
        maximum=32_767,
    )
    transaction_state_log_min_isr: int = setting(
        INT,
        "transaction.state.log.min.isr",
        1,
        f"How many replicas of __transaction_state must be in sync. (Kafka's default is 2.) {NO_EFFECT}",
        minimum=1,
    )

    # Bounds that Kafka lacks
    headwater_transactions_max: int = setting(
        INT,
        "headwater.transactions.max",
        100_000,
        "How many transactional ids the broker remembers before it refuses new ones.",
        minimum=1,
    )
    headwater_transaction_partitions_max: int = setting(
        INT,
        "headwater.transaction.partitions.max",
        10_000,
        "How many partitions one transaction may write to.",
        minimum=1,
    )
    headwater_transactions_partitions_max: int = setting(
        INT,
        "headwater.transactions.partitions.max",
        1_000_000,
        "How many partitions all transactions that are open may write to, counted once for each transaction.",
        minimum=1,
    )
    headwater_publish_writers_max: int = setting(
        INT,
        "headwater.publish.writers.max",
        10_000,
        "How many writers may be published as one batch: the tasks of a Spark job that writes exactly once.",
        minimum=1,
    )
    headwater_application_id_expiration_ms: int = setting(
        LONG,
        "headwater.application.id.expiration.ms",
        2_592_000_000,
        "How long the last batch of an application that publishes nothing is remembered. A batch that is replayed "
        "after that is published again.",
        minimum=1,
    )
