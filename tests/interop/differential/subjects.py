"""A valid request to each API, from which others are made by changing one field.

Every case has topics, groups and ids of its own where its request changes something: `world.new("group")` is a name
that no other case uses. Nothing depends on how soon Kafka's broker learns of a change that its controller has made.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.protocol.consumer_protocol import Subscription, write_subscription
from headwater.security.acl import Operation, Permission, ResourceType
from tests.interop.differential.brokers import ask_values, requests_by_name
from tests.interop.differential.built import Values
from tests.support.kafka.raw_client import NOW_MS, RawClient, batch_of

TOPIC, BROKER, GROUP = 2, 4, 32
LITERAL = 3
ANY = 1
TOPICS: Mapping[str, int] = {"orders": 2, "payments": 1, "written": 1}
MEMBER_ID = str(UUID(int=11))
# What is in the first partition of `orders`.
RECORDS = 3


class World(NamedTuple):
    """One broker, as the cases find it."""

    client: RawClient
    topic_ids: Mapping[str, UUID]
    # Of the group `members`: its only member, in generation 1.
    member_id: str
    # Of the only member of the group `modern`.
    modern_epoch: int
    case: int = 0

    def new(self, what: str) -> str:
        return f"{what}-{self.case}"

    def ask(self, api: str, version: int, **values: Any) -> Any:
        return ask_values(self.client, api, version, **values)


class Subject(NamedTuple):
    api: str
    values: Callable[[World], Values]
    # Fields that stay as they are.
    skipped: frozenset[str] = frozenset()
    # Whether only the first and the last version are tried with changed fields.
    is_costly: bool = False
    first_version: int = 0
    # Whether others may see what it changes, so that they have to wait until every part of Kafka knows.
    changes_metadata: bool = False
    # Edges that Kafka leaves without an answer, because its code fails on them.
    unanswered: frozenset[str] = frozenset()

    @property
    def versions(self) -> range:
        served = requests_by_name()[self.api].versions
        return range(max(served.start, self.first_version), served.stop)


# -- records


def _produce(world: World) -> Values:
    records = batch_of(b"a", b"b")
    return {
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [
            {
                "name": "written",
                "topic_id": world.topic_ids["written"],
                "partition_data": [{"index": 0, "records": records}],
            }
        ],
    }


def _fetch(world: World) -> Values:
    partition = {
        "partition": 0,
        "current_leader_epoch": 0,
        "fetch_offset": 1,
        "partition_max_bytes": 10_000,
        "log_start_offset": -1,
    }
    topic = {"topic": "orders", "topic_id": world.topic_ids["orders"], "partitions": [partition]}
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100_000, "topics": [topic]}


def _list_offsets(_: World) -> Values:
    partition = {"partition_index": 0, "current_leader_epoch": 0, "timestamp": NOW_MS}
    return {"replica_id": -1, "topics": [{"name": "orders", "partitions": [partition]}]}


def _offset_for_leader_epoch(_: World) -> Values:
    partition = {"partition": 0, "current_leader_epoch": 0, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [partition]}]}


def _delete_records(_: World) -> Values:
    return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 10_000}


# -- topics


def _metadata(world: World) -> Values:
    topic = {"name": "orders", "topic_id": UUID(int=0)}
    del world
    return {"topics": [topic], "allow_auto_topic_creation": False}


def _metadata_by_id(world: World) -> Values:
    return {"topics": [{"name": None, "topic_id": world.topic_ids["orders"]}], "allow_auto_topic_creation": False}


def _create_topics(world: World) -> Values:
    topic = {
        "name": world.new("created"),
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "7000"}],
    }
    return {"topics": [topic], "timeout_ms": 10_000, "validate_only": True}


def _create_topics_assigned(world: World) -> Values:
    assignment = {"partition_index": 0, "broker_ids": [1]}
    topic = {
        "name": world.new("assigned"),
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [assignment],
    }
    return {"topics": [topic], "timeout_ms": 10_000, "validate_only": True}


def _delete_topics(_: World) -> Values:
    return {
        "topics": [{"name": "absent", "topic_id": UUID(int=0)}],
        "topic_names": ["absent"],
        "timeout_ms": 10_000,
    }


def _create_partitions(_: World) -> Values:
    topic = {"name": "payments", "count": 2, "assignments": [{"broker_ids": [1]}]}
    return {"topics": [topic], "timeout_ms": 10_000, "validate_only": True}


def _describe_topic_partitions(_: World) -> Values:
    return {"topics": [{"name": "orders"}], "cursor": {"topic_name": "orders", "partition_index": 1}}


def _describe_log_dirs(_: World) -> Values:
    return {"topics": [{"topic": "orders", "partitions": [1]}]}


# -- configs


def _describe_configs(_: World) -> Values:
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": ["retention.ms"]}
    return {"resources": [resource], "include_synonyms": True}


def _describe_group_configs(_: World) -> Values:
    keys = ["consumer.session.timeout.ms"]
    return {"resources": [{"resource_type": GROUP, "resource_name": "readers", "configuration_keys": keys}]}


def _alter_configs(_: World) -> Values:
    config = {"name": "retention.ms", "value": "8000"}
    resource = {"resource_type": TOPIC, "resource_name": "payments", "configs": [config]}
    return {"resources": [resource], "validate_only": True}


def _incremental_alter_configs(_: World) -> Values:
    config = {"name": "cleanup.policy", "config_operation": 2, "value": "compact"}
    resource = {"resource_type": TOPIC, "resource_name": "payments", "configs": [config]}
    return {"resources": [resource], "validate_only": True}


def _list_config_resources(_: World) -> Values:
    return {"resource_types": [BROKER]}


# -- groups


def _find_coordinator(_: World) -> Values:
    return {"key": "readers", "key_type": 0, "coordinator_keys": ["readers"]}


def _offset_commit(world: World) -> Values:
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "noted"}
    topic = {"name": "orders", "topic_id": world.topic_ids["orders"], "partitions": [partition]}
    return {"group_id": world.new("committer"), "topics": [topic]}


def _offset_commit_of_member(world: World) -> Values:
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "noted"}
    topic = {"name": "orders", "topic_id": world.topic_ids["orders"], "partitions": [partition]}
    member = {"member_id": world.member_id, "generation_id_or_member_epoch": 1}
    return {"group_id": "members", **member, "topics": [topic]}


def _offset_fetch(world: World) -> Values:
    by_name = {"name": "orders", "partition_indexes": [0]}
    topic = {**by_name, "topic_id": world.topic_ids["orders"]}
    return {"group_id": "readers", "topics": [by_name], "groups": [{"group_id": "readers", "topics": [topic]}]}


def _offset_fetch_of_member(world: World) -> Values:
    topic = {"name": "orders", "topic_id": world.topic_ids["orders"], "partition_indexes": [0]}
    group = {"group_id": "modern", "member_id": MEMBER_ID, "member_epoch": world.modern_epoch, "topics": [topic]}
    return {"groups": [group]}


def _join_group(world: World) -> Values:
    metadata = write_subscription(Subscription([]))
    return {
        "group_id": world.new("joined"),
        "session_timeout_ms": 300_000,
        "rebalance_timeout_ms": 300_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }


def _heartbeat(world: World) -> Values:
    return {"group_id": "members", "generation_id": 1, "member_id": world.member_id}


def _sync_group(world: World) -> Values:
    assignment = {"member_id": world.member_id, "assignment": b"assigned"}
    return {
        **_heartbeat(world),
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [assignment],
    }


def _leave_group(world: World) -> Values:
    member = {"member_id": "a stranger", "reason": "to test"}
    del world
    return {"group_id": "members", "member_id": "a stranger", "members": [member]}


def _describe_groups(_: World) -> Values:
    return {"groups": ["members"], "include_authorized_operations": True}


def _consumer_group_describe(_: World) -> Values:
    return {"group_ids": ["modern"], "include_authorized_operations": True}


def _consumer_group_heartbeat(world: World) -> Values:
    return {
        "group_id": world.new("modern"),
        "member_id": MEMBER_ID,
        "member_epoch": 0,
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": ["orders"],
        "server_assignor": "range",
        "topic_partitions": [],
    }


def _delete_groups(world: World) -> Values:
    return {"groups_names": [world.new("absent")]}


def _offset_delete(_: World) -> Values:
    topic = {"name": "orders", "partitions": [{"partition_index": 1}]}
    return {"group_id": "readers", "topics": [topic]}


def _list_groups(_: World) -> Values:
    return {"states_filter": ["Empty"], "types_filter": ["consumer"]}


# -- transactions


def _init_producer_id(world: World) -> Values:
    return {"transactional_id": world.new("producer"), "transaction_timeout_ms": 60_000}


def _producer(world: World) -> Values:
    name = world.new("ledger")
    begun = world.ask("InitProducerId", 4, transactional_id=name, transaction_timeout_ms=60_000)
    assert begun.error_code == 0
    return {"transactional_id": name, "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}


def _add_partitions(world: World) -> Values:
    producer = _producer(world)
    topics = [{"name": "payments", "partitions": [0]}]
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return {**old, "v3_and_below_topics": topics, "transactions": [{**producer, "topics": topics}]}


def _add_offsets(world: World) -> Values:
    return {**_producer(world), "group_id": "readers"}


def _txn_offset_commit(world: World) -> Values:
    producer = _producer(world)
    group = world.new("transactional")
    world.ask("AddOffsetsToTxn", 3, **producer, group_id=group)
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "noted"}
    return {**producer, "group_id": group, "topics": [{"name": "orders", "partitions": [partition]}]}


def _end_txn(world: World) -> Values:
    producer = _producer(world)
    added = {f"v3_and_below_{name}": value for name, value in producer.items()}
    topics = [{"name": "payments", "partitions": [0]}]
    world.ask("AddPartitionsToTxn", 3, **added, v3_and_below_topics=topics)
    return {**producer, "committed": False}


def _produce_in_transaction(world: World) -> Values:
    values = _produce(world)
    producer = _producer(world)
    added = {f"v3_and_below_{name}": value for name, value in producer.items()}
    world.ask("AddPartitionsToTxn", 3, **added, v3_and_below_topics=[{"name": "written", "partitions": [0]}])
    batch = batches.build(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"],
        base_sequence=0,
        transactional=True,
    )
    data = [{**values["topic_data"][0], "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    return {**values, "transactional_id": producer["transactional_id"], "topic_data": data}


def _write_markers(_: World) -> Values:
    marker = {
        "producer_id": 5_000_000,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "absent", "partition_indexes": [0]}],
    }
    return {"markers": [marker]}


def _describe_transactions(world: World) -> Values:
    return {"transactional_ids": [_producer(world)["transactional_id"]]}


def _list_transactions(world: World) -> Values:
    return {"state_filters": ["Empty"], "transactional_id_pattern": world.new("nobody")}


def _describe_producers(_: World) -> Values:
    return {"topics": [{"name": "orders", "partition_indexes": [0]}]}


# -- security


def _acl_filter(world: World) -> Values:
    return {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": world.new("protected"),
        "pattern_type_filter": LITERAL,
        "principal_filter": "User:somebody",
        "host_filter": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }


def _create_acls(world: World) -> Values:
    rule = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": world.new("protected"),
        "resource_pattern_type": LITERAL,
        "principal": "User:somebody",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return {"creations": [rule]}


def _delete_acls(world: World) -> Values:
    return {"filters": [_acl_filter(world)]}


def _alter_credentials(world: World) -> Values:
    upserted = {
        "name": world.new("user"),
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": bytes(32),
    }
    return {"upsertions": [upserted], "deletions": [{"name": world.new("absent"), "mechanism": 2}]}


def _describe_credentials(_: World) -> Values:
    return {"users": [{"name": "absent"}]}


# -- share groups, which nobody joins


def _share_group_heartbeat(world: World) -> Values:
    return {"group_id": world.new("absent"), "member_id": MEMBER_ID, "member_epoch": 5}


def _share_session(world: World) -> Values:
    return {"group_id": world.new("absent"), "member_id": MEMBER_ID, "share_session_epoch": 5}


def _share_state(*fields: str) -> Callable[[World], Values]:
    """Of another broker, about a topic that does not exist."""

    def values(world: World) -> Values:
        topic = {"topic_id": UUID(int=77), "partitions": [{"partition": 0, **dict.fromkeys(fields, 0)}]}
        return {"group_id": world.new("absent"), "topics": [topic]}

    return values


# -- cluster and replicas


def _api_versions(_: World) -> Values:
    return {"client_software_name": "tests", "client_software_version": "1.0"}


def _describe_cluster(_: World) -> Values:
    return {"include_cluster_authorized_operations": True}


def _elect_leaders(_: World) -> Values:
    return {"election_type": 0, "topic_partitions": [{"topic": "orders", "partitions": [0]}]}


def _reassign(_: World) -> Values:
    return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}


def _list_reassignments(_: World) -> Values:
    return {"topics": [{"name": "orders", "partition_indexes": [0]}]}


def _move(_: World) -> Values:
    return {"dirs": [{"path": "/nowhere", "topics": [{"name": "orders", "partitions": [0]}]}]}


def _describe_quorum(_: World) -> Values:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


_TIMEOUT = frozenset({"timeout_ms"})
# Sessions begin with epoch 0; what a fetch waits for.
_SHARE_SESSION = frozenset({"share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "is_renew_ack"})
_PRODUCE = frozenset({"acks", "timeout_ms"})
_NO_RECORDS = frozenset({"topic_data.partition_data.records=null"})
_ODD_PROTOCOLS = frozenset({"protocols=twice", "protocols.metadata=b'garbage'"})

SUBJECTS: Mapping[str, list[Subject]] = {
    # First, because they see what the others leave.
    "listings": [
        Subject("ListGroups", _list_groups),
        Subject("ListTransactions", _list_transactions),
        Subject("DescribeLogDirs", _describe_log_dirs),
    ],
    "records": [
        # With acks=0 there is no answer.
        Subject("Produce", _produce, _PRODUCE, unanswered=_NO_RECORDS),
        Subject("Produce", _produce_in_transaction, _PRODUCE, is_costly=True, unanswered=_NO_RECORDS),
        # What a fetch waits for, and sessions, which begin with any request of epoch 0.
        Subject("Fetch", _fetch, frozenset({"max_wait_ms", "min_bytes", "session_id"})),
        Subject("ListOffsets", _list_offsets, _TIMEOUT),
        Subject("OffsetForLeaderEpoch", _offset_for_leader_epoch),
        Subject("DeleteRecords", _delete_records, _TIMEOUT),
        Subject("DescribeProducers", _describe_producers),
    ],
    "topics": [
        Subject("Metadata", _metadata, frozenset({"topics"})),
        Subject("Metadata", _metadata_by_id, first_version=12),
        Subject("CreateTopics", _create_topics, _TIMEOUT, is_costly=True, changes_metadata=True),
        Subject("CreateTopics", _create_topics_assigned, _TIMEOUT, is_costly=True, changes_metadata=True),
        Subject("DeleteTopics", _delete_topics, _TIMEOUT),
        Subject("CreatePartitions", _create_partitions, frozenset({"timeout_ms", "validate_only"}), is_costly=True),
        Subject("DescribeTopicPartitions", _describe_topic_partitions),
    ],
    "configs": [
        Subject("DescribeConfigs", _describe_configs),
        Subject("DescribeConfigs", _describe_group_configs, is_costly=True),
        Subject(
            "AlterConfigs", _alter_configs, frozenset({"validate_only"}), unanswered=frozenset({"resources=twice"})
        ),
        Subject("IncrementalAlterConfigs", _incremental_alter_configs, frozenset({"validate_only"})),
        Subject("ListConfigResources", _list_config_resources),
    ],
    "groups": [
        Subject("FindCoordinator", _find_coordinator),
        Subject("OffsetCommit", _offset_commit),
        Subject("OffsetCommit", _offset_commit_of_member, is_costly=True),
        Subject("OffsetFetch", _offset_fetch),
        Subject("OffsetFetch", _offset_fetch_of_member, first_version=9),
        Subject("JoinGroup", _join_group, is_costly=True, unanswered=_ODD_PROTOCOLS),
        Subject("Heartbeat", _heartbeat),
        Subject("SyncGroup", _sync_group),
        Subject("LeaveGroup", _leave_group),
        Subject("DescribeGroups", _describe_groups),
        Subject("ConsumerGroupDescribe", _consumer_group_describe),
        Subject("ConsumerGroupHeartbeat", _consumer_group_heartbeat),
        Subject("DeleteGroups", _delete_groups),
        Subject("OffsetDelete", _offset_delete),
    ],
    "transactions": [
        Subject("InitProducerId", _init_producer_id, is_costly=True),
        Subject("AddPartitionsToTxn", _add_partitions, is_costly=True, unanswered=frozenset({"transactions=nothing"})),
        Subject("AddOffsetsToTxn", _add_offsets, is_costly=True),
        Subject("TxnOffsetCommit", _txn_offset_commit, is_costly=True),
        Subject("EndTxn", _end_txn, is_costly=True),
        Subject("WriteTxnMarkers", _write_markers),
        Subject("DescribeTransactions", _describe_transactions),
    ],
    "shares": [
        # Joining is another test's.
        Subject("ShareGroupHeartbeat", _share_group_heartbeat, frozenset({"member_epoch"})),
        Subject("ShareGroupDescribe", lambda world: {"group_ids": [world.new("absent")]}),
        Subject("ShareFetch", _share_session, _SHARE_SESSION),
        Subject("ShareAcknowledge", _share_session, _SHARE_SESSION),
        Subject("InitializeShareGroupState", _share_state("state_epoch", "start_offset")),
        Subject("ReadShareGroupState", _share_state("leader_epoch")),
        Subject("WriteShareGroupState", _share_state("state_epoch", "leader_epoch", "start_offset")),
        Subject("DeleteShareGroupState", _share_state()),
        Subject("ReadShareGroupStateSummary", _share_state("leader_epoch")),
        Subject("DescribeClientQuotas", lambda _: {"components": []}),
    ],
    "security": [
        Subject("CreateAcls", _create_acls, changes_metadata=True),
        Subject("DescribeAcls", _acl_filter),
        Subject("DeleteAcls", _delete_acls, changes_metadata=True),
        Subject("AlterUserScramCredentials", _alter_credentials, changes_metadata=True),
        Subject("DescribeUserScramCredentials", _describe_credentials),
        Subject("SaslHandshake", lambda _: {"mechanism": "PLAIN"}),
        Subject("SaslAuthenticate", lambda _: {"auth_bytes": b"nobody"}),
        # A client without a user gets no token.
        Subject("CreateDelegationToken", lambda _: {"renewers": [], "max_lifetime_ms": 1_000_000}),
        Subject("RenewDelegationToken", lambda _: {"hmac": b"unknown", "renew_period_ms": 1_000_000}),
        Subject("ExpireDelegationToken", lambda _: {"hmac": b"unknown", "expiry_time_period_ms": 1_000_000}),
        Subject("DescribeDelegationToken", lambda _: {"owners": []}),
    ],
    "cluster": [
        Subject("ApiVersions", _api_versions),
        Subject("DescribeCluster", _describe_cluster),
        Subject("ElectLeaders", _elect_leaders, _TIMEOUT),
        Subject("AlterPartitionReassignments", _reassign, _TIMEOUT),
        Subject("ListPartitionReassignments", _list_reassignments, _TIMEOUT),
        Subject("AlterReplicaLogDirs", _move),
        Subject("DescribeQuorum", _describe_quorum),
    ],
}
