"""Every difference between Apache Kafka and Headwater that is meant, with its reason; `docs/gaps.md` tells users."""

from collections.abc import Sequence

from tests.interop.differential.comparison import Meant

_AUDIT = "the audit log is a topic, and Kafka has none"
_CREATED = "settings of our own, and Kafka's default for min.insync.replicas is one that its formatting has set"
_TRANSACTION_STATES = "markers are on their way for a moment, in either"

_QUORUM = "the log of our catalog is another one than Kafka's, and a single node has no listener of a controller"

# Of the comparison of ACLs.
ACLS: Sequence[Meant] = (
    Meant(
        "Produce",
        "*.partition_responses[0].*",
        "a plain batch of a request with a transactional id would be visible even if the transaction were aborted",
        "*transactional id alone",
    ),
    Meant("Fetch", "*.partitions[0].*", "only brokers fetch as replicas (CVE-2018-1288)", "*as a replica"),
    Meant("Metadata", "topics[__headwater_audit*", _AUDIT),
    Meant("DescribeTopicPartitions", "topics[__headwater_audit*", _AUDIT),
    Meant("ListConfigResources", "config_resources[2/__headwater_audit]", _AUDIT),
    Meant("CreateTopics", "topics*.configs[headwater.*", _CREATED),
    Meant("CreateTopics", "topics*.configs[min.insync.replicas].config_source", _CREATED),
    Meant("DescribeConfigs", "results[8/*", "the levels of loggers are not changed over the wire"),
    Meant(
        "ConsumerGroupHeartbeat",
        "error_code",
        "a member whose group is gone joins again; clients take Kafka's GROUP_ID_NOT_FOUND for fatal",
        "*of a stranger",
    ),
    Meant(
        "ShareGroupHeartbeat",
        "error_code",
        "a member whose group is gone joins again; clients take Kafka's GROUP_ID_NOT_FOUND for fatal",
        "*of a stranger",
    ),
    Meant(
        "AlterShareGroupOffsets",
        "responses[*",
        "Kafka tells the id of a topic, and so that it exists, to a client that may not read it",
    ),
    Meant("ShareGroupHeartbeat", "member_epoch", "epochs only have to grow; the first is 1 here, 2 in Kafka"),
    Meant("ConsumerGroupHeartbeat", "member_epoch", "epochs only have to grow; the first is 1 here, 2 in Kafka"),
    Meant(
        "ListGroups",
        "groups[*.readers]",
        "a group without members goes with its last offset; Kafka lists it until its next clean-up",
    ),
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
