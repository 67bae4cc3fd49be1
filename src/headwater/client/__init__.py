"""A small synchronous client for Headwater and other Kafka brokers: no threads, and nothing happens between two calls.

    from headwater.client import Cluster, GroupConsumer, Producer

    with Cluster("127.0.0.1:9092") as cluster:
        with Producer(cluster) as producer:
            producer.send("greetings", b"Hello, Ann!")
        with GroupConsumer(cluster, "readers") as consumer:
            consumer.subscribe(["greetings"])
            while True:
                for record in consumer.poll():
                    print(record.value)

Everything starts with a `Cluster`, which holds the connections; `read_security` gives it TLS and SASL. `Producer`
writes, `Consumer` reads given partitions, `GroupConsumer` reads as a member of a group, and
`QueueConsumer` receives and settles records of a share group. `Admin`, `GroupAdmin`,
`TransactionAdmin`, `UserAdmin`, `TokenAdmin` and `AccessAdmin` (ACLs and roles) list, describe and change.
`Schedule` lists, cancels and moves records that are to be delivered later.
`TransactionalProducer` writes records and settles received ones, all or nothing; `StagingWriter` and `publish` write
exactly once from many tasks. What goes wrong raises a `ClientError`; its `is_retriable` says whether a retry may help.

The names in `__all__` are the public interface. Each is imported when it is first used, so that importing this package,
or one module of it, stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client.access import AccessAdmin, AuthorizerSettings, RoleDescription
    from headwater.client.admin import Admin, ClusterDescription, CreatedTopic, TopicSetting
    from headwater.client.cluster import Cluster, PartitionDescription, TopicDescription
    from headwater.client.consumer import ConsumedRecord, Consumer, FetchedBatch
    from headwater.client.delivery import DeliveredBatch
    from headwater.client.errors import (
        AuthenticationFailed,
        ClientError,
        ConnectionLost,
        OffsetOutOfRange,
        Refused,
        UnknownGroup,
        UnknownTopic,
        UnknownTransactionalId,
        UnsupportedApi,
    )
    from headwater.client.groups.admin import GroupAdmin, GroupDescription, GroupListing, MemberDescription
    from headwater.client.groups.group_consumer import GroupConsumer
    from headwater.client.groups.group_offsets import CommittedOffset
    from headwater.client.groups.queue_consumer import (
        NotSettled,
        PeekedRecord,
        QueueConsumer,
        QueueStats,
        ReceivedRecord,
    )
    from headwater.client.offsets import EARLIEST, LATEST, list_offsets, offsets_since
    from headwater.client.producer import Producer
    from headwater.client.schedule import Altered, Place, Schedule, ScheduledRecord, ScheduleId
    from headwater.client.security.security import Security, read_security
    from headwater.client.tokens import DelegationToken, TokenAdmin
    from headwater.client.transactions.admin import TransactionAdmin, TransactionDescription, TransactionListing
    from headwater.client.transactions.staging import (
        OutdatedBatch,
        PublishResult,
        StagedWriter,
        StagingWriter,
        WriterFenced,
        publish,
    )
    from headwater.client.transactions.transactional_producer import (
        ProducerFenced,
        Transaction,
        TransactionalProducer,
    )
    from headwater.client.users import ScramCredentialInfo, UserAdmin
    from headwater.errors import ConfigError, ErrorCode
    from headwater.ids import TopicName, TopicPartition, staging_id
    from headwater.protocol.batches.compression import Codec
    from headwater.protocol.batches.records import Record
    from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
    from headwater.security.roles import Role, RoleGrant

__all__ = [
    "EARLIEST",
    "LATEST",
    "AccessAdmin",
    "Acl",
    "AclFilter",
    "Admin",
    "Altered",
    "AuthenticationFailed",
    "AuthorizerSettings",
    "ClientError",
    "Cluster",
    "ClusterDescription",
    "Codec",
    "CommittedOffset",
    "ConfigError",
    "ConnectionLost",
    "ConsumedRecord",
    "Consumer",
    "CreatedTopic",
    "DelegationToken",
    "DeliveredBatch",
    "ErrorCode",
    "FetchedBatch",
    "GroupAdmin",
    "GroupConsumer",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "NotSettled",
    "OffsetOutOfRange",
    "Operation",
    "OutdatedBatch",
    "PartitionDescription",
    "PatternType",
    "PeekedRecord",
    "Permission",
    "Place",
    "Producer",
    "ProducerFenced",
    "PublishResult",
    "QueueConsumer",
    "QueueStats",
    "ReceivedRecord",
    "Record",
    "Refused",
    "ResourceType",
    "Role",
    "RoleDescription",
    "RoleGrant",
    "Schedule",
    "ScheduleId",
    "ScheduledRecord",
    "ScramCredentialInfo",
    "Security",
    "StagedWriter",
    "StagingWriter",
    "TokenAdmin",
    "TopicDescription",
    "TopicName",
    "TopicPartition",
    "TopicSetting",
    "Transaction",
    "TransactionAdmin",
    "TransactionDescription",
    "TransactionListing",
    "TransactionalProducer",
    "UnknownGroup",
    "UnknownTopic",
    "UnknownTransactionalId",
    "UnsupportedApi",
    "UserAdmin",
    "WriterFenced",
    "list_offsets",
    "offsets_since",
    "publish",
    "read_security",
    "staging_id",
]

if not TYPE_CHECKING:
    # Hidden from the type checker, which would otherwise accept any name.
    _NAMES_BY_MODULE = {
        "headwater.client.access": "AccessAdmin AuthorizerSettings RoleDescription",
        "headwater.client.admin": "Admin ClusterDescription CreatedTopic TopicSetting",
        "headwater.client.cluster": "Cluster PartitionDescription TopicDescription",
        "headwater.client.consumer": "ConsumedRecord Consumer FetchedBatch",
        "headwater.client.delivery": "DeliveredBatch",
        "headwater.client.errors": "AuthenticationFailed ClientError ConnectionLost OffsetOutOfRange Refused "
        "UnknownGroup UnknownTopic UnknownTransactionalId UnsupportedApi",
        "headwater.client.groups.admin": "GroupAdmin GroupDescription GroupListing MemberDescription",
        "headwater.client.groups.group_consumer": "GroupConsumer",
        "headwater.client.groups.group_offsets": "CommittedOffset",
        "headwater.client.groups.queue_consumer": "NotSettled PeekedRecord QueueConsumer QueueStats ReceivedRecord",
        "headwater.client.offsets": "EARLIEST LATEST list_offsets offsets_since",
        "headwater.client.producer": "Producer",
        "headwater.client.schedule": "Altered Place Schedule ScheduleId ScheduledRecord",
        "headwater.client.security.security": "Security read_security",
        "headwater.client.tokens": "DelegationToken TokenAdmin",
        "headwater.client.transactions.admin": "TransactionAdmin TransactionDescription TransactionListing",
        "headwater.client.transactions.staging": "OutdatedBatch PublishResult StagedWriter StagingWriter WriterFenced "
        "publish",
        "headwater.client.transactions.transactional_producer": "ProducerFenced Transaction TransactionalProducer",
        "headwater.client.users": "ScramCredentialInfo UserAdmin",
        "headwater.errors": "ConfigError ErrorCode",
        "headwater.ids": "TopicName TopicPartition staging_id",
        "headwater.protocol.batches.compression": "Codec",
        "headwater.protocol.batches.records": "Record",
        "headwater.security.acl": "Acl AclFilter Operation PatternType Permission ResourceType",
        "headwater.security.roles": "Role RoleGrant",
    }
    _MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(module), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
