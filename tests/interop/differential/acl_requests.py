"""What every client of the comparison of ACLs asks for.

Each request that changes something has resources of its own, so that no answer depends on how soon Kafka's broker
learns of an earlier change. Where it is possible, a client asks twice: for something that is there, and for something
that is not, because an error must not tell a client without rights which of the two it is.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.security.acl import Operation, PatternType, Permission, ResourceType
from tests.interop.differential.acl_clients import OTHER_OWNER, Own
from tests.interop.differential.built import Values
from tests.support.kafka.raw_client import NOW_MS, batch_of

# Kinds of resources that have settings.
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
GROUP_KEY, TRANSACTION_KEY = 0, 1
UNKNOWN_ID = UUID(int=7)
BROKER_ID = "1"
ANY = 1
DESCRIBED_SETTING = "retention.ms"


class Asked(NamedTuple):
    """The name says what is special about the request among those to the same API."""

    name: str
    api: str
    version: int
    values: Values

    @property
    def title(self) -> str:
        return f"{self.api} v{self.version} {self.name}"


def requests(own: Own) -> Iterator[Asked]:
    """In the order in which they are to be sent."""
    yield from _reads(own)
    yield from _listings(own)
    yield from _groups(own)
    yield from _share_groups(own)
    yield from _writes(own)
    yield from _transactions(own)
    yield from _administration(own)
    yield from _replicas(own)
    yield from _rules_and_users(own)


def _both(own: Own, there: str = "orders") -> tuple[str, str]:
    return own.named(there), own.named("missing")


def _reads(own: Own) -> Iterator[Asked]:
    def fetch(**topic: object) -> Values:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        return {"max_wait_ms": 0, "min_bytes": 0, "topics": [{**topic, "partitions": [partition]}]}

    for topic in _both(own):
        what = topic.rpartition(".")[2]
        yield Asked(what, "Fetch", 12, fetch(topic=topic))
        partitions = [{"partition_index": 0, "timestamp": -1}]
        listed = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
        yield Asked(what, "ListOffsets", 9, listed)
        epochs = {"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}
        yield Asked(what, "OffsetForLeaderEpoch", 4, {"topics": [epochs]})
        records = {"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}
        yield Asked(what, "DeleteRecords", 2, {"timeout_ms": 10_000, "topics": [records]})
        yield Asked(what, "DescribeProducers", 0, {"topics": [{"name": topic, "partition_indexes": [0]}]})
    yield Asked("by id", "Fetch", 17, fetch(topic_id=own.topic_id("orders")))
    yield Asked("by an unknown id", "Fetch", 17, fetch(topic_id=UNKNOWN_ID))
    yield Asked("as a replica", "Fetch", 12, {**fetch(topic=own.named("orders")), "replica_id": 1})


def _listings(own: Own) -> Iterator[Asked]:
    orders, missing = _both(own)
    named = [{"name": orders}, {"name": missing}]
    yield Asked("of all", "Metadata", 12, {"topics": None})
    yield Asked("by name", "Metadata", 8, {"topics": named, "allow_auto_topic_creation": False})
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    yield Asked("with operations", "Metadata", 10, {"topics": named, "allow_auto_topic_creation": False, **operations})
    ids = [{"topic_id": own.topic_id("orders"), "name": None}, {"topic_id": UNKNOWN_ID, "name": None}]
    yield Asked("by id", "Metadata", 12, {"topics": ids})
    yield Asked("of an illegal name", "Metadata", 12, {"topics": [{"name": f"{orders}!"}]})
    yield Asked("by name", "DescribeTopicPartitions", 0, {"topics": named})
    yield Asked("of all", "DescribeTopicPartitions", 0, {"topics": []})
    yield Asked("", "DescribeCluster", 1, {"include_cluster_authorized_operations": True})
    yield Asked("", "ListGroups", 5, {})
    yield Asked("", "ListTransactions", 1, {})
    yield Asked("of one", "DescribeLogDirs", 4, {"topics": [{"topic": own.named("changed"), "partitions": [0]}]})
    for resource_type in (TOPIC, BROKER, CLIENT_METRICS):
        yield Asked(f"of type {resource_type}", "ListConfigResources", 1, {"resource_types": [resource_type]})
    for kind, name in ((TOPIC, orders), (TOPIC, missing), (BROKER, BROKER_ID), (BROKER_LOGGER, BROKER_ID)):
        # Loggers have other names in each broker; what matters is whether they are shown.
        wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": [DESCRIBED_SETTING]}
        what = name.removeprefix(f"{own.client}.")
        yield Asked(f"of type {kind} {what}", "DescribeConfigs", 4, {"resources": [wanted]})
    for name in ("readers", "nowhere"):
        wanted = {
            "resource_type": GROUP,
            "resource_name": own.named(name),
            "configuration_keys": ["consumer.session.timeout.ms"],
        }
        yield Asked(f"of group {name}", "DescribeConfigs", 4, {"resources": [wanted]})


def _groups(own: Own) -> Iterator[Asked]:
    orders, missing = _both(own)
    readers, joined, nowhere = map(own.named, ("readers", "joined", "nowhere"))
    for name in ("readers", "nowhere"):
        yield Asked(name, "FindCoordinator", 6, {"key_type": GROUP_KEY, "coordinator_keys": [own.named(name)]})
    yield Asked("single", "FindCoordinator", 2, {"key_type": GROUP_KEY, "key": readers})
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    by_name = [{"name": orders, "partitions": partitions}, {"name": missing, "partitions": partitions}]
    yield Asked("by name", "OffsetCommit", 9, {"group_id": readers, "topics": by_name})
    by_id = [{"topic_id": own.topic_id("orders"), "partitions": partitions}]
    by_id.append({"topic_id": UNKNOWN_ID, "partitions": partitions})
    yield Asked("by id", "OffsetCommit", 10, {"group_id": readers, "topics": by_id})
    fetched = [{"name": orders, "partition_indexes": [0]}, {"name": missing, "partition_indexes": [0]}]
    yield Asked("old", "OffsetFetch", 1, {"group_id": readers, "topics": fetched})
    yield Asked("by name", "OffsetFetch", 7, {"group_id": readers, "topics": fetched})
    wanted = [{"group_id": readers, "topics": fetched}, {"group_id": nowhere, "topics": fetched}]
    yield Asked("of two groups", "OffsetFetch", 9, {"groups": wanted})
    yield Asked("of all", "OffsetFetch", 9, {"groups": [{"group_id": readers, "topics": None}]})
    ids = [{"topic_id": own.topic_id("orders"), "partition_indexes": [0]}]
    ids.append({"topic_id": UNKNOWN_ID, "partition_indexes": [0]})
    yield Asked("by id", "OffsetFetch", 10, {"groups": [{"group_id": readers, "topics": ids}]})
    join = {
        "group_id": joined,
        # Long enough that nobody who comes later sees it end.
        "session_timeout_ms": 300_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    yield Asked("", "JoinGroup", 9, join)
    member = {"group_id": readers, "member_id": "unknown"}
    yield Asked("", "Heartbeat", 4, {**member, "generation_id": 1})
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    yield Asked("", "SyncGroup", 5, {**member, "generation_id": 1, **protocol})
    yield Asked("without a protocol", "SyncGroup", 5, {**member, "generation_id": 1})
    yield Asked("", "LeaveGroup", 5, {"group_id": readers, "members": [{"member_id": "unknown"}]})
    yield Asked("single", "LeaveGroup", 2, member)
    described = {"groups": [readers, nowhere], "include_authorized_operations": True}
    yield Asked("", "DescribeGroups", 6, described)
    modern = {"group_ids": [readers, nowhere], "include_authorized_operations": True}
    yield Asked("", "ConsumerGroupDescribe", 1, modern)
    beat = {"group_id": own.named("modern"), "member_id": str(UNKNOWN_ID), "member_epoch": 1}
    yield Asked("of a stranger", "ConsumerGroupHeartbeat", 1, beat)
    first = {"member_epoch": 0, "rebalance_timeout_ms": 10_000, "topic_partitions": []}
    yield Asked("of a topic", "ConsumerGroupHeartbeat", 1, {**beat, **first, "subscribed_topic_names": [missing]})
    deleted = [{"name": orders, "partitions": [{"partition_index": 0}]}]
    deleted.append({"name": missing, "partitions": [{"partition_index": 0}]})
    yield Asked("", "OffsetDelete", 0, {"group_id": readers, "topics": deleted})
    yield Asked("", "DeleteGroups", 2, {"groups_names": [own.named("gone"), nowhere]})


# The requests among brokers, with their last versions and the fields of a partition that have no default.
SHARE_STATE_APIS = (
    ("InitializeShareGroupState", 0, ("state_epoch", "start_offset")),
    ("ReadShareGroupState", 0, ("leader_epoch",)),
    ("WriteShareGroupState", 1, ("state_epoch", "leader_epoch", "start_offset")),
    ("DeleteShareGroupState", 0, ()),
    ("ReadShareGroupStateSummary", 1, ("leader_epoch",)),
)


def _share_groups(own: Own) -> Iterator[Asked]:
    """Of groups that do not exist: whether a client may ask is decided first."""
    orders, missing = _both(own)
    share, nowhere, member = own.named("share"), own.named("nowhere"), "AAAAAAAAAAAAAAAAAAAABw"
    beat = {"group_id": own.named("nowhere"), "member_id": member, "member_epoch": 1}
    yield Asked("of a stranger", "ShareGroupHeartbeat", 1, beat)
    first = {"group_id": share, "member_epoch": 0, "subscribed_topic_names": [missing]}
    yield Asked("of a topic", "ShareGroupHeartbeat", 1, {**beat, **first})
    described = {"group_ids": [own.named("readers"), nowhere], "include_authorized_operations": True}
    yield Asked("", "ShareGroupDescribe", 1, described)
    session = {"group_id": nowhere, "member_id": member, "share_session_epoch": 1}
    fetch = {**session, "max_wait_ms": 0, "min_bytes": 0, "max_records": 1, "batch_size": 1}
    yield Asked("without a session", "ShareFetch", 2, fetch)
    yield Asked("without a session", "ShareAcknowledge", 2, session)
    topics = [{"topic_name": name, "partitions": [0]} for name in (orders, missing)]
    yield Asked("", "DescribeShareGroupOffsets", 1, {"groups": [{"group_id": nowhere, "topics": topics}]})
    altered = [{"topic_name": orders, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    yield Asked("", "AlterShareGroupOffsets", 0, {"group_id": nowhere, "topics": altered})
    deleted = [{"topic_name": orders}, {"topic_name": missing}]
    yield Asked("", "DeleteShareGroupOffsets", 0, {"group_id": nowhere, "topics": deleted})
    for api, version, fields in SHARE_STATE_APIS:
        topic = {"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, **dict.fromkeys(fields, 0)}]}
        yield Asked("", api, version, {"group_id": nowhere, "topics": [topic]})


def _writes(own: Own) -> Iterator[Asked]:
    def produce(records: bytes, **topic: object) -> Values:
        data = [{**topic, "partition_data": [{"index": 0, "records": records}]}]
        return {"acks": -1, "timeout_ms": 10_000, "topic_data": data}

    orders, missing = _both(own)
    producer_id, epoch = own.producer
    for topic in (orders, missing):
        yield Asked(topic.rpartition(".")[2], "Produce", 12, produce(batch_of(b"v"), name=topic))
    yield Asked("by id", "Produce", 13, produce(batch_of(b"v"), topic_id=own.topic_id("orders")))
    yield Asked("by an unknown id", "Produce", 13, produce(batch_of(b"v"), topic_id=UNKNOWN_ID))
    transactional = batches.build(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    named = {"transactional_id": own.named("ledger")}
    # Version 11 has no part in the transaction: the partition was not added, so even a client with all rights fails.
    yield Asked("transactional", "Produce", 11, {**produce(bytes(transactional), name=orders), **named})
    yield Asked("transactional id alone", "Produce", 11, {**produce(batch_of(b"v"), name=orders), **named})
    yield Asked("idempotent", "InitProducerId", 5, {"transactional_id": None, "transaction_timeout_ms": 1000})


def _transactions(own: Own) -> Iterator[Asked]:
    orders, missing = _both(own)
    ledger = own.named("ledger")
    producer_id, epoch = own.producer
    producer = {"transactional_id": ledger, "producer_id": producer_id, "producer_epoch": epoch}
    for name in ("ledger", "nowhere"):
        keys = [own.named(name)]
        yield Asked(f"id {name}", "FindCoordinator", 6, {"key_type": TRANSACTION_KEY, "coordinator_keys": keys})
    described = {"transactional_ids": [ledger, own.named("nowhere")]}
    yield Asked("", "DescribeTransactions", 0, described)
    for topics in ([orders], [orders, missing]):
        added: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in producer.items()}
        added["v3_and_below_topics"] = [{"name": topic, "partitions": [0]} for topic in topics]
        yield Asked(f"{len(topics)} topics", "AddPartitionsToTxn", 3, added)
    of_broker = {**producer, "topics": [{"name": orders, "partitions": [0]}]}
    yield Asked("of a broker", "AddPartitionsToTxn", 5, {"transactions": [of_broker]})
    yield Asked("", "AddOffsetsToTxn", 4, {**producer, "group_id": own.named("readers")})
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    committed = [{"name": orders, "partitions": partitions}, {"name": missing, "partitions": partitions}]
    yield Asked("", "TxnOffsetCommit", 4, {**producer, "group_id": own.named("readers"), "topics": committed})
    yield Asked("", "EndTxn", 4, {**producer, "committed": False})
    marker = {
        "producer_id": 1_000_000,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": missing, "partition_indexes": [0]}],
    }
    yield Asked("", "WriteTxnMarkers", 1, {"markers": [marker]})
    begun = {"transactional_id": own.named("nowhere"), "transaction_timeout_ms": 10_000}
    yield Asked("transactional", "InitProducerId", 5, begun)


def _administration(own: Own) -> Iterator[Asked]:
    new = {"num_partitions": 1, "replication_factor": 1, "configs": [{"name": "retention.ms", "value": "7000"}]}
    created = {"topics": [{"name": own.named("new"), **new}]}
    yield Asked("validated", "CreateTopics", 7, {**created, "validate_only": True})
    yield Asked("", "CreateTopics", 7, {"topics": [{"name": own.named("new-2"), **new}]})
    yield Asked("that is there", "CreateTopics", 7, {"topics": [{"name": own.named("orders"), **new}]})
    yield Asked("of an illegal name", "CreateTopics", 7, {"topics": [{"name": f"{own.named('new')}!", **new}]})
    for name in ("grown", "missing"):
        grown = {"topics": [{"name": own.named(name), "count": 2, "assignments": None}], "timeout_ms": 10_000}
        yield Asked(name, "CreatePartitions", 3, grown)
    for what, kind, name, setting in (
        ("changed", TOPIC, own.named("changed"), ("retention.ms", "8000")),
        ("missing", TOPIC, own.named("missing"), ("retention.ms", "8000")),
        ("broker", BROKER, BROKER_ID, ("log.cleaner.threads", "1")),
        ("group", GROUP, own.named("readers"), ("consumer.session.timeout.ms", "50000")),
    ):
        config = {"name": setting[0], "value": setting[1]}
        resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
        # Whether this is kept, the other requests do not see.
        yield Asked(what, "AlterConfigs", 2, {"resources": [resource], "validate_only": True})
        edited = {**resource, "configs": [{**config, "config_operation": 0}]}
        yield Asked(what, "IncrementalAlterConfigs", 1, {"resources": [edited], "validate_only": kind == BROKER})
    yield Asked("that creates", "Metadata", 12, {"topics": [{"name": own.named("auto")}]})
    by_name = [{"name": own.named("doomed")}, {"name": own.named("missing")}]
    yield Asked("by name", "DeleteTopics", 6, {"topics": by_name, "timeout_ms": 10_000})
    by_id = [{"name": None, "topic_id": own.topic_id("doomed-by-id")}, {"name": None, "topic_id": UNKNOWN_ID}]
    yield Asked("by id", "DeleteTopics", 6, {"topics": by_id, "timeout_ms": 10_000})


def _replicas(own: Own) -> Iterator[Asked]:
    for topic in _both(own):
        what = topic.rpartition(".")[2]
        partitions = [{"topic": topic, "partitions": [0, 7]}]
        yield Asked(what, "ElectLeaders", 2, {"topic_partitions": partitions, "election_type": 0})
        moved = [{"partition_index": 0, "replicas": [1]}, {"partition_index": 7, "replicas": [1]}]
        yield Asked(what, "AlterPartitionReassignments", 1, {"topics": [{"name": topic, "partitions": moved}]})
        listed = [{"name": topic, "partition_indexes": [0]}]
        yield Asked(what, "ListPartitionReassignments", 0, {"topics": listed})
        directory = {"path": "/nowhere", "topics": [{"name": topic, "partitions": [0]}]}
        yield Asked(what, "AlterReplicaLogDirs", 2, {"dirs": [directory]})
    metadata = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    yield Asked("", "DescribeQuorum", 2, {"topics": [metadata]})


def _rules_and_users(own: Own) -> Iterator[Asked]:
    rule = {
        "resource_name": own.named("orders"),
        "principal": "User:somebody",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    added = {"resource_type": ResourceType.TOPIC, "resource_pattern_type": PatternType.LITERAL, **rule}
    yield Asked("", "CreateAcls", 3, {"creations": [added]})
    wanted = {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": own.named("changed"),
        "pattern_type_filter": PatternType.LITERAL,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    yield Asked("", "DescribeAcls", 3, wanted)
    yield Asked("", "DeleteAcls", 3, {"filters": [{**wanted, "resource_name_filter": own.named("absent")}]})
    yield Asked("", "DescribeClientQuotas", 1, {"components": []})
    yield Asked("", "DescribeUserScramCredentials", 0, {"users": [{"name": own.client}]})
    absent = {"name": "nobody there", "mechanism": 1}
    yield Asked("", "AlterUserScramCredentials", 0, {"deletions": [absent]})
    # Those of the clients before.
    yield Asked("of all", "DescribeDelegationToken", 3, {"owners": None})
    somebodys = [{"principal_type": "User", "principal_name": OTHER_OWNER}]
    yield Asked("of one owner", "DescribeDelegationToken", 3, {"owners": somebodys})
    token = {"renewers": [], "max_lifetime_ms": 1_000_000}
    yield Asked("", "CreateDelegationToken", 3, token)
    owner = {"owner_principal_type": "User", "owner_principal_name": OTHER_OWNER}
    yield Asked("of another", "CreateDelegationToken", 3, {**token, **owner})
    yield Asked("unknown", "RenewDelegationToken", 2, {"hmac": b"unknown", "renew_period_ms": 1000})
    yield Asked("unknown", "ExpireDelegationToken", 2, {"hmac": b"unknown", "expiry_time_period_ms": 1000})
