"""Every difference between Apache Kafka and Headwater that is meant, with its reason; `docs/gaps.md` tells users."""

from collections.abc import Mapping, Sequence

from headwater.listeners.kafka.api_table import APIS
from tests.interop.differential.comparison import Meant

_AUDIT = "the audit log is a topic, and Kafka has none"
_CREATED = "settings of our own, and Kafka's default for min.insync.replicas is one that its formatting has set"
_TRANSACTION_STATES = "markers are on their way for a moment, in either"
_QUORUM = "the log of our catalog is another one than Kafka's, and a single node has no listener of a controller"
_LAST_OFFSET = "a group without members goes with its last offset; Kafka lists it until its next clean-up"
_UNSERVED = "APIs of clusters, of changes to quotas, and of streams groups are not served"
_OWN = "APIs and settings of our own"
_FIRST_OWN_KEY = 10_000
_DEAD_LETTERS = "dead letters of share groups (KIP-1191), which Kafka 4.3 does not have yet"
_FEATURES = "features that a single node does not need, or whose groups are not served"
_OTHER_GROUPS = "settings of streams groups, and of assignments in the background, are not known"
_LOGGERS = "the levels of loggers are not read or changed over the wire"
_REPLICAS = "only brokers fetch as replicas (CVE-2018-1288)"
_NO_EPOCH = "every epoch below 0 stands for none, as in Kafka's fetches"
_FAILS = "Kafka's code fails where a value has no meaning"
_OVERFLOW = "Kafka's cursor overflows"
_ONCE = "what is named twice is answered once here or there; a request must not get a large answer many times"
_EMPTY = "topics of which no partition is named"
_PLAIN = "a plain batch of a request with a transactional id would be visible even if the transaction were aborted"
_EPOCHS = "epochs only have to grow; the first is 1 here, 2 in Kafka"
_REJOINS = "a member whose group is gone joins again; clients take Kafka's GROUP_ID_NOT_FOUND for fatal"
_NUMBERS = "a number that stands for nothing is refused; Kafka closes the connection, fails, or selects nothing"

# APIs of which requests are not compared, and why. Who may use them is.
_SHARE_OFFSETS = "in Kafka they create the group, its internal topic, and both late"
NOT_COMPARED: Mapping[str, str] = {
    "DescribeShareGroupOffsets": _SHARE_OFFSETS,
    "AlterShareGroupOffsets": _SHARE_OFFSETS,
    "DeleteShareGroupOffsets": _SHARE_OFFSETS,
}

# Of the comparison of ACLs.
ACLS: Sequence[Meant] = (
    Meant("Produce", "*.partition_responses[0].*", _PLAIN, "*transactional id alone"),
    Meant("Fetch", "*.partitions[0].*", _REPLICAS, "*as a replica"),
    Meant("Metadata", "topics[__headwater_audit*", _AUDIT),
    Meant("DescribeTopicPartitions", "topics[__headwater_audit*", _AUDIT),
    Meant("ListConfigResources", "config_resources[2/__headwater_audit]", _AUDIT),
    Meant("CreateTopics", "topics*.configs[headwater.*", _CREATED),
    Meant("CreateTopics", "topics*.configs[errors.deadletterqueue.*", _DEAD_LETTERS),
    Meant("CreateTopics", "topics*.configs[min.insync.replicas].config_source", _CREATED),
    Meant("DescribeConfigs", "results[8/*", _LOGGERS),
    Meant("ConsumerGroupHeartbeat", "error_code", _REJOINS, "*of a stranger"),
    Meant("ShareGroupHeartbeat", "error_code", _REJOINS, "*of a stranger"),
    Meant(
        "AlterShareGroupOffsets",
        "responses[*",
        "Kafka tells the id of a topic, and so that it exists, to a client that may not read it",
    ),
    Meant("ShareGroupHeartbeat", "member_epoch", _EPOCHS),
    Meant("ConsumerGroupHeartbeat", "member_epoch", _EPOCHS),
    Meant("ListGroups", "groups[*.readers]", _LAST_OFFSET),
    Meant("ListTransactions", "*.transaction_state", _TRANSACTION_STATES, is_constant=False),
    Meant(
        "DescribeUserScramCredentials",
        "results[]",
        "Kafka adds a result without a name for each user asked for; the error of the whole is the same",
    ),
    Meant(
        "*DelegationToken",
        "expiry_timestamp_ms",
        "has no meaning beside an error: Kafka has 0 in one place, -1 in others",
    ),
    Meant("ListPartitionReassignments", "topics[*", "Kafka's refusal repeats what was asked as if it were being moved"),
    Meant("DescribeQuorum", "topics[__cluster_metadata].partitions[0].leader_epoch", _QUORUM),
    Meant("DescribeQuorum", "topics[__cluster_metadata].partitions[0].high_watermark", _QUORUM),
    Meant("DescribeQuorum", "topics[__cluster_metadata].partitions[0].current_voters[].log_end_offset", _QUORUM),
    Meant("DescribeQuorum", "nodes[1].listeners[*", _QUORUM),
)

# Of the comparison of requests.
REQUESTS: Sequence[Meant] = (
    # Of the comparison of ACLs, if it has run before.
    Meant("ListGroups", "groups[*.readers]", _LAST_OFFSET, is_constant=False),
    Meant("ListTransactions", "*.transaction_state", _TRANSACTION_STATES, is_constant=False),
    *(Meant("ApiVersions", f"api_keys[{key}]", _UNSERVED) for key in (49, 57, 64, 80, 81, 88, 89)),
    *(Meant("ApiVersions", f"api_keys[{api.key}]", _OWN) for api in APIS if api.key >= _FIRST_OWN_KEY),
    Meant("ApiVersions", "supported_features[*", _FEATURES),
    Meant("ApiVersions", "finalized_features[*", _FEATURES),
    Meant("ApiVersions", "finalized_features_epoch", _FEATURES),
    Meant("DescribeConfigs", "results[32/*].configs[headwater.*", _OWN),
    Meant("DescribeConfigs", "results[*].configs[errors.deadletterqueue.*", _DEAD_LETTERS),
    Meant("DescribeConfigs", "results[32/*].configs[share.*", _OTHER_GROUPS),
    Meant("DescribeConfigs", "results[32/*].configs[streams.*", _OTHER_GROUPS),
    Meant("DescribeConfigs", "results[32/*].configs[consumer.assignment.interval.ms]", _OTHER_GROUPS),
    Meant("ListConfigResources", "config_resources[8/*", _LOGGERS),
    Meant("ListConfigResources", "config_resources[2/__headwater_audit]", _AUDIT),
    Meant(
        "ApiVersions", "api_keys[35].max_version", "version 5 tells which directories are cordoned; there is only one"
    ),
    Meant("Metadata", "topics[__headwater_audit*", _AUDIT),
    Meant("Metadata", "*", _FAILS, "*topic_id=00000000-*"),
    Meant("CreateTopics", "topics*.configs[headwater.*", _CREATED),
    Meant("CreateTopics", "topics*.configs[errors.deadletterqueue.*", _DEAD_LETTERS),
    Meant("CreateTopics", "topics*.configs[min.insync.replicas].config_source", _CREATED),
    Meant("DescribeConfigs", "results[2/*].configs[headwater.*", _CREATED),
    Meant("DescribeConfigs", "results[2/*].configs[min.insync.replicas].*", _CREATED),
    Meant("DescribeConfigs", "results[2/*].synonyms[log.*", "the default of a setting in other units is named, too"),
    Meant("DescribeTopicPartitions", "next_cursor", _OVERFLOW, "*cursor.partition_index=2147483647"),
    Meant("DescribeLogDirs", "*.partition_size", "internal topics hold records of other sizes"),
    Meant("DescribeLogDirs", "results[].topics[__headwater_audit]", _AUDIT),
    Meant("ElectLeaders", "replica_election_results[__headwater_audit]", _AUDIT),
    Meant("IncrementalAlterConfigs", "*.error_code", _FAILS, "*config_operation=*"),
    Meant("IncrementalAlterConfigs", "*.error_code", "an empty value adds nothing to a list", "*value=empty"),
    Meant("*", "*]", _ONCE, "*twice"),
    Meant("*", "*]", _EMPTY, "*nothing"),
    Meant("DescribeQuorum", "topics[__cluster_metadata].partitions[0].leader_epoch", _QUORUM),
    Meant("DescribeQuorum", "topics[__cluster_metadata].partitions[0].high_watermark", _QUORUM),
    Meant("DescribeQuorum", "topics[__cluster_metadata].partitions[0].current_voters[].log_end_offset", _QUORUM),
    Meant("DescribeQuorum", "nodes[1].listeners[*", _QUORUM),
    Meant("Produce", "*", _PLAIN, "*transactional_id=*"),
    Meant("Fetch", "*", _REPLICAS, "*replica_id=*"),
    Meant("Fetch", "*.aborted_transactions", "there is nothing to tell beside an error", "*current_leader_epoch=*"),
    Meant("Fetch", "*", _FAILS, "*max_bytes=-*"),
    Meant("Fetch", "*", _FAILS, "*isolation_level=*"),
    Meant("Fetch", "*", "only followers name the epoch that they fetched last", "*last_fetched_epoch=*"),
    Meant("ListOffsets", "*", _FAILS, "*isolation_level=*"),
    Meant("ListOffsets", "*", _NO_EPOCH, "*current_leader_epoch=-2"),
    Meant("OffsetForLeaderEpoch", "*", _NO_EPOCH, "*leader_epoch=-2"),
    Meant(
        "AlterUserScramCredentials", "*.error_code", "credentials that protect nobody are refused", "*upsertions.salt*"
    ),
    Meant("AlterUserScramCredentials", "*.error_code", _ONCE, "*deletions=twice"),
    Meant("DescribeUserScramCredentials", "results[user-*", "those that were refused"),
    Meant("OffsetFetch", "groups[modern].*", _EPOCHS, "*member_epoch=1"),
    Meant("OffsetFetch", "*.error_code", _FAILS, "*member_id=null"),
    Meant("JoinGroup", "*", "an instance without a name cannot be told from another", "*group_instance_id=empty"),
    Meant("ConsumerGroupDescribe", "*_epoch", _EPOCHS),
    Meant("ConsumerGroupHeartbeat", "member_epoch", _EPOCHS),
    Meant(
        "ConsumerGroupHeartbeat",
        "member_id",
        "ids are UUIDs in Kafka's notation or in the usual one",
        "*member_id=empty",
    ),
    Meant("ConsumerGroupHeartbeat", "error_code", _REJOINS, "*member_epoch=*"),
    Meant(
        "WriteTxnMarkers",
        "*.error_code",
        "coordinators have no such epoch, whatever they write to",
        "*coordinator_epoch=*",
    ),
    Meant("ShareGroupHeartbeat", "error_code", _REJOINS),
    Meant("ShareFetch", "error_code", "a group has a name", "*group_id=empty"),
    Meant("ShareAcknowledge", "error_code", "a group has a name", "*group_id=empty"),
    Meant("*Acls", "", _NUMBERS, "*=0"),
    Meant("CreateAcls", "results[].error_code", _NUMBERS, "*=1"),
    Meant("CreateAcls", "results[].error_code", "a rule without a host fits nobody", "*host=empty"),
    Meant("DescribeAcls", "error_code", _NUMBERS),
    Meant("CreateDelegationToken", "error_code", _FAILS, "*owner_principal_name=*"),
)
