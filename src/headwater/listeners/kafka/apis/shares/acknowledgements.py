"""Acknowledgements, as ShareFetch and ShareAcknowledge have them: from a request to their outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.coordination.shares.commands import Acknowledged, Acknowledgement
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, MemberId, TopicId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_sessions import Key
from headwater.protocol.messages.shares.share_acknowledge import AcknowledgeTopic
from headwater.protocol.messages.shares.share_fetch import AcknowledgementBatch, FetchTopic

# What the member says of each partition.
Said: TypeAlias = Mapping[Key, Sequence[AcknowledgementBatch]]


def said_in(topics: Iterable[FetchTopic | AcknowledgeTopic]) -> Said:
    """The partitions of which the request acknowledges records."""
    return {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def check_reads(topic_id: TopicId, context: Context) -> None:
    """Before anything about the topic: an error must not tell whether it exists."""
    name = context.broker.topics.existing_by_id(topic_id).name
    if not context.guard.is_open and not context.guard.reads(name):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to read topic '{name}'")


class AcknowledgementOutcomes(Pending[Mapping[Key, HeadwaterError | None]]):
    """The outcome for each partition, once all of them are on disk."""

    __slots__ = ("_left", "_outcomes")

    def __init__(
        self, said: Said, group_id: GroupId, member_id: MemberId, context: Context, *, is_renewal: bool
    ) -> None:
        super().__init__()
        self._outcomes: dict[Key, HeadwaterError | None] = {}
        # One more, so that nothing is told before all is asked.
        self._left = len(said) + 1
        for key, batches in said.items():
            topic_id, index = TopicId(key[0]), key[1]
            try:
                check_reads(topic_id, context)
                context.broker.partition_by_id(topic_id, index)
            except HeadwaterError as refusal:
                self._told(key, refusal)
                continue
            context.broker.shares.acknowledge(
                SharePartitionId(group_id, topic_id, index),
                member_id,
                [Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches],
                is_renewal=is_renewal,
            ).then(lambda outcome, key=key: self._told(key, outcome))
        self._done()

    def _told(self, key: Key, outcome: Outcome[Acknowledged]) -> None:
        self._outcomes[key] = outcome if isinstance(outcome, HeadwaterError) else None
        self._done()

    def _done(self) -> None:
        self._left -= 1
        if not self._left:
            self.resolve(self._outcomes)
