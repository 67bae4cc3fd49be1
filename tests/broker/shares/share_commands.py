"""Commands to share-partitions of a broker without listeners."""

from collections.abc import Sequence

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.shares.share_fetch import SharedPartition, ShareFetch, ShareFetchLimits, ShareRead
from headwater.coordination.groups.share.commands import ShareHeartbeat
from headwater.coordination.shares.commands import Acknowledged, Acknowledgement
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, MemberId, TopicName
from tests.support.broker.embedded_broker import batch_of, create, produce, run

GROUP = GroupId("billing")
ANN, BOB = MemberId("ann"), MemberId("bob")
SETTINGS = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}
LONG_MS = 20_000
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


class Shared:
    """A topic that a share group reads from its beginning, with two members."""

    def __init__(self, broker: Broker, partition: Partition) -> None:
        self.broker = broker
        self.partition = partition
        topic = broker.topics.existing(partition.id.topic)
        self.id = SharePartitionId(GROUP, topic.id, partition.id.partition)

    async def join(self, member_id: MemberId = ANN) -> None:
        await self.broker.groups.prepare()
        names = (TopicName(self.partition.id.topic),)
        heartbeat = ShareHeartbeat(member_id, 0, None, names, "client", "/10.0.0.1")
        told = await run(self.broker.groups.share_heartbeat(GROUP, heartbeat).wait())
        assert not isinstance(told, HeadwaterError), told

    async def produce(self, *values: bytes) -> None:
        appended = await produce(self.broker, self.partition, batch_of(*values))
        assert appended.error is None

    def fetch(self, member_id: MemberId = ANN, **limits: int | bool) -> ShareFetch:
        asked = ShareFetchLimits(
            bytes_min=1, bytes_max=1 << 20, records_max=500, is_strict=False, wait_ms=LONG_MS, committed_only=False
        )._replace(**limits)
        return ShareFetch(self.broker.shares, member_id, [SharedPartition(self.id, self.partition)], asked)

    async def fetched(self, member_id: MemberId = ANN, **limits: int | bool) -> list[tuple[int, int, int]]:
        reads: Sequence[ShareRead] = await run(self.fetch(member_id, **limits).wait())
        (read,) = reads
        assert read.error is None, read.error
        return [tuple(each) for each in read.acquired]  # pyright: ignore[reportReturnType]

    async def acknowledge(self, first: int, last: int, kind: int, member_id: MemberId = ANN) -> Acknowledged:
        said = [Acknowledgement(first, last, [kind])]
        outcome = await run(self.broker.shares.acknowledge(self.id, member_id, said, is_renewal=False).wait())
        assert not isinstance(outcome, HeadwaterError), outcome
        return outcome


async def shared(broker: Broker, name: str = "orders") -> Shared:
    found = Shared(broker, await create(broker, name))
    await broker.configs.replace(32, GROUP, {"share.auto.offset.reset": "earliest"}, validate_only=False)
    await found.join()
    return found


async def loaded(broker: Broker, found: Shared) -> Shared:
    """The same, after a restart."""
    again = Shared(broker, broker.partition(found.partition.id.topic, 0))
    assert again.id == found.id
    loading = broker.shares._loading
    assert loading is not None
    await run(loading)
    groups_loading = broker.groups._loading
    assert groups_loading is not None
    await run(groups_loading)
    return again
