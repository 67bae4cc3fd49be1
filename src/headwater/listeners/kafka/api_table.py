"""The table of APIs that are served. A new API needs a message, a handler and a line in `APIS`."""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple, TypeAlias

from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.outcome import Outcome
from headwater.protocol.wire.codec import Request

Handler: TypeAlias = Callable[[Request, Context], Outcome]

_HANDLERS = "headwater.listeners.kafka.apis"
SECURITY = "security"
# Marks an API that only administrators use: its first request loads it, so that it costs neither start nor memory.
ADMIN = True
# As well one that most brokers never need.
RARE = True


class Api(NamedTuple):
    """An API, as its message declares it. The table repeats this, so that it can be advertised before it is loaded."""

    key: int
    # As in Kafka.
    name: str
    first_version: int
    last_version: int
    flexible_from: int
    # The module of the handler: its area and its name.
    handler: str
    admin: bool = False

    @property
    def area(self) -> str:
        return self.handler.partition(".")[0]

    def load(self) -> tuple[type[Request], Handler]:
        """The request, and the function that handles it."""
        module = import_module(f"{_HANDLERS}.{self.handler}")
        return module.REQUEST, module.handle


# Where no version is flexible, the last number is the one after the last version.
APIS = (
    Api(0, "Produce", 3, 13, 9, "records.produce"),
    Api(1, "Fetch", 4, 18, 12, "records.fetch"),
    Api(2, "ListOffsets", 1, 11, 6, "records.list_offsets"),
    Api(3, "Metadata", 0, 13, 9, "topics.metadata"),
    Api(8, "OffsetCommit", 2, 10, 8, "groups.offset_commit"),
    Api(9, "OffsetFetch", 1, 10, 6, "groups.offset_fetch"),
    Api(10, "FindCoordinator", 0, 6, 3, "cluster.find_coordinator"),
    Api(11, "JoinGroup", 0, 9, 6, "groups.join_group"),
    Api(12, "Heartbeat", 0, 4, 4, "groups.heartbeat"),
    Api(13, "LeaveGroup", 0, 5, 4, "groups.leave_group"),
    Api(14, "SyncGroup", 0, 5, 4, "groups.sync_group"),
    Api(15, "DescribeGroups", 0, 6, 5, "groups.describe_groups", ADMIN),
    Api(16, "ListGroups", 0, 5, 3, "groups.list_groups", ADMIN),
    Api(17, "SaslHandshake", 0, 1, 2, "security.sasl_handshake"),
    Api(18, "ApiVersions", 0, 4, 3, "cluster.api_versions"),
    Api(19, "CreateTopics", 2, 7, 5, "topics.create_topics"),
    Api(20, "DeleteTopics", 1, 6, 4, "topics.delete_topics"),
    Api(21, "DeleteRecords", 0, 2, 2, "records.delete_records", ADMIN),
    Api(22, "InitProducerId", 0, 5, 2, "transactions.init_producer_id"),
    Api(23, "OffsetForLeaderEpoch", 2, 4, 4, "records.offset_for_leader_epoch"),
    Api(24, "AddPartitionsToTxn", 0, 5, 3, "transactions.add_partitions_to_txn"),
    Api(25, "AddOffsetsToTxn", 0, 4, 3, "transactions.add_offsets_to_txn"),
    Api(26, "EndTxn", 0, 5, 3, "transactions.end_txn"),
    Api(27, "WriteTxnMarkers", 1, 2, 1, "transactions.write_txn_markers"),
    Api(28, "TxnOffsetCommit", 0, 5, 3, "transactions.txn_offset_commit"),
    Api(29, "DescribeAcls", 1, 3, 2, "security.describe_acls", ADMIN),
    Api(30, "CreateAcls", 1, 3, 2, "security.create_acls", ADMIN),
    Api(31, "DeleteAcls", 1, 3, 2, "security.delete_acls", ADMIN),
    Api(32, "DescribeConfigs", 1, 4, 4, "configs.describe_configs", ADMIN),
    Api(33, "AlterConfigs", 0, 2, 2, "configs.alter_configs", ADMIN),
    Api(34, "AlterReplicaLogDirs", 1, 2, 2, "replicas.alter_replica_log_dirs", ADMIN),
    Api(35, "DescribeLogDirs", 1, 4, 2, "topics.describe_log_dirs", ADMIN),
    Api(36, "SaslAuthenticate", 0, 2, 2, "security.sasl_authenticate"),
    Api(37, "CreatePartitions", 0, 3, 2, "topics.create_partitions", ADMIN),
    Api(38, "CreateDelegationToken", 1, 3, 2, "security.create_delegation_token", ADMIN),
    Api(39, "RenewDelegationToken", 1, 2, 2, "security.renew_delegation_token", ADMIN),
    Api(40, "ExpireDelegationToken", 1, 2, 2, "security.expire_delegation_token", ADMIN),
    Api(41, "DescribeDelegationToken", 1, 3, 2, "security.describe_delegation_token", ADMIN),
    Api(42, "DeleteGroups", 0, 2, 2, "groups.delete_groups", ADMIN),
    Api(43, "ElectLeaders", 0, 2, 2, "replicas.elect_leaders", ADMIN),
    Api(44, "IncrementalAlterConfigs", 0, 1, 1, "configs.incremental_alter_configs", ADMIN),
    Api(45, "AlterPartitionReassignments", 0, 1, 0, "replicas.alter_partition_reassignments", ADMIN),
    Api(46, "ListPartitionReassignments", 0, 0, 0, "replicas.list_partition_reassignments", ADMIN),
    Api(47, "OffsetDelete", 0, 0, 1, "groups.offset_delete", ADMIN),
    Api(48, "DescribeClientQuotas", 0, 1, 1, "configs.describe_client_quotas", ADMIN),
    Api(50, "DescribeUserScramCredentials", 0, 0, 0, "security.describe_user_scram_credentials", ADMIN),
    Api(51, "AlterUserScramCredentials", 0, 0, 0, "security.alter_user_scram_credentials", ADMIN),
    Api(55, "DescribeQuorum", 0, 2, 0, "replicas.describe_quorum", ADMIN),
    Api(60, "DescribeCluster", 0, 2, 0, "cluster.describe_cluster", ADMIN),
    Api(61, "DescribeProducers", 0, 0, 0, "transactions.describe_producers", ADMIN),
    Api(65, "DescribeTransactions", 0, 0, 0, "transactions.describe_transactions", ADMIN),
    Api(66, "ListTransactions", 0, 2, 0, "transactions.list_transactions", ADMIN),
    Api(68, "ConsumerGroupHeartbeat", 0, 1, 0, "groups.consumer_group_heartbeat"),
    Api(69, "ConsumerGroupDescribe", 0, 1, 0, "groups.consumer_group_describe", ADMIN),
    Api(74, "ListConfigResources", 0, 1, 0, "configs.list_config_resources", ADMIN),
    Api(75, "DescribeTopicPartitions", 0, 0, 0, "topics.describe_topic_partitions", ADMIN),
    Api(76, "ShareGroupHeartbeat", 1, 1, 0, "shares.share_group_heartbeat", RARE),
    Api(77, "ShareGroupDescribe", 1, 1, 0, "shares.share_group_describe", ADMIN),
    Api(78, "ShareFetch", 1, 2, 0, "shares.share_fetch", RARE),
    Api(79, "ShareAcknowledge", 1, 2, 0, "shares.share_acknowledge", RARE),
    Api(83, "InitializeShareGroupState", 0, 0, 0, "shares.initialize_share_group_state", RARE),
    Api(84, "ReadShareGroupState", 0, 0, 0, "shares.read_share_group_state", RARE),
    Api(85, "WriteShareGroupState", 0, 1, 0, "shares.write_share_group_state", RARE),
    Api(86, "DeleteShareGroupState", 0, 0, 0, "shares.delete_share_group_state", RARE),
    Api(87, "ReadShareGroupStateSummary", 0, 1, 0, "shares.read_share_group_state_summary", RARE),
    Api(90, "DescribeShareGroupOffsets", 0, 1, 0, "shares.describe_share_group_offsets", ADMIN),
    Api(91, "AlterShareGroupOffsets", 0, 0, 0, "shares.alter_share_group_offsets", ADMIN),
    Api(92, "DeleteShareGroupOffsets", 0, 0, 0, "shares.delete_share_group_offsets", ADMIN),
    Api(10000, "PublishBatch", 0, 0, 0, "transactions.publish_batch"),
    Api(10001, "DescribeMetrics", 0, 0, 0, "observability.describe_metrics", ADMIN),
    Api(10002, "DescribeRoles", 0, 0, 0, "security.describe_roles", ADMIN),
    Api(10003, "AlterRoles", 0, 0, 0, "security.alter_roles", ADMIN),
    Api(10010, "DescribeSchedule", 0, 0, 0, "schedule.describe_schedule", ADMIN),
    Api(10011, "ListScheduledRecords", 0, 0, 0, "schedule.list_scheduled_records", ADMIN),
    Api(10012, "AlterScheduledRecords", 0, 0, 0, "schedule.alter_scheduled_records", ADMIN),
    Api(10020, "ReceiveRecords", 0, 0, 0, "shares.receive_records", RARE),
    Api(10021, "SettleRecords", 0, 0, 0, "shares.settle_records", RARE),
    Api(10022, "PeekRecords", 0, 0, 0, "shares.peek_records", RARE),
    Api(10023, "DescribeQueue", 0, 0, 0, "shares.describe_queue", RARE),
    Api(10030, "TxnSettleRecords", 0, 0, 0, "transactions.txn_settle_records", RARE),
)

BY_KEY = {api.key: api for api in APIS}
FLEXIBLE_FROM = {api.key: api.flexible_from for api in APIS}
API_VERSIONS_KEY = 18
_PRODUCE_KEY = 0


def load_apis(*, with_security: bool) -> None:
    """Load the handlers of what clients do all day before the first client comes, so that none waits for it."""
    for api in APIS:
        if not api.admin and (with_security or api.area != SECURITY):
            api.load()


def advertised_apis() -> list[tuple[int, int, int]]:
    """Key, first and last version of every API that is served."""
    # As Kafka does (KAFKA-18659): older librdkafkas compress only for a broker that advertises Produce from version 0.
    return [(api.key, 0 if api.key == _PRODUCE_KEY else api.first_version, api.last_version) for api in APIS]
