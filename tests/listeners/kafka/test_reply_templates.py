"""Replies to produce requests: new numbers are filled into the bytes of an earlier reply of the same shape."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from headwater.broker.writes.journal import Append
from headwater.errors import ErrorCode
from headwater.listeners.kafka import reply_templates
from headwater.listeners.kafka.reply_templates import ReplyTemplates
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.protocol.wire.codec import reply_frame_parts, write_correlation_id
from tests.support.kafka.raw_client import RawClient, batch_of

VERSIONS = range(3, 14)
FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_TOPIC_IDS = 13
BATCH = batch_of(b"value")
# Topics and partitions out of their natural order.
INDEXES = {"b": (2, 0), "a": (1,)}
IDS = {"a": UUID(int=7 << 100), "b": UUID(int=8 << 100)}


def appended(base_offset: int, log_append_time_ms: int, log_start_offset: int) -> Append:
    append = Append(lambda _: None)
    append.base_offset = base_offset
    append.log_append_time_ms = log_append_time_ms
    append.log_start_offset = log_start_offset
    return append


def respond(appends: Sequence[Append]) -> ProduceResponse:
    waiting = iter(appends)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                topic_id=IDS[name],
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        base_offset=(append := next(waiting)).base_offset,
                        log_append_time_ms=append.log_append_time_ms,
                        log_start_offset=append.log_start_offset,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in INDEXES.items()
        ]
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filled_template_equals_the_reply_of_the_codec(version: int) -> None:
    templates = ReplyTemplates()
    templates.learn((version, "any"), version, 3, respond)
    template = templates.find((version, "any"))
    if version < reply_templates.FIRST_VERSION:
        assert template is None
        return
    assert template is not None
    for appends in (
        [appended(0, -1, 0), appended(0, -1, 0), appended(0, -1, 0)],
        [appended(2**62 - 1, 2**61, 5), appended(1, 2, 3), appended(2**40, -1, 2**39)],
    ):
        frame = template.filled(appends)
        write_correlation_id(frame, 7)
        (expected,) = reply_frame_parts(
            respond(appends), version, 7, has_tagged_header=version >= FIRST_FLEXIBLE_VERSION
        )
        assert frame == expected


def test_the_number_and_size_of_kept_templates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_templates, "SHAPES_MAX", 10)
    monkeypatch.setattr(reply_templates, "PARTITIONS_MAX", 3)
    templates = ReplyTemplates()
    for number in range(25):
        templates.learn((9, number), 9, 3, respond)
    assert [number for number in range(25) if templates.find((9, number))] == [20, 21, 22, 23, 24]
    templates.learn((9, 25), 9, 4, respond)
    assert templates.find((9, 25)) is None
    nowhere = TopicProduceResponse(name="n" * 30_000, partition_responses=[])
    templates.learn((9, 26), 9, 3, lambda appends: ProduceResponse(responses=[*respond(appends).responses, nowhere]))
    assert templates.find((9, 26)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_replies_of_one_shape_have_their_own_offsets_and_timestamps(client: RawClient, name: str, version: int) -> None:
    names = [f"{name}.stamped", name]
    ids = {
        names[0]: client.create(names[0], 3, message_timestamp_type="LogAppendTime"),
        names[1]: client.create(names[1], 3),
    }
    request = ProduceRequest(
        acks=1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=ids[topic],
                partition_data=[PartitionProduceData(index=index, records=BATCH) for index in (2, 0)],
            )
            for topic in names
        ],
    )
    for offset in range(3):
        response = client.ask(request, ProduceResponse, version)
        for topic, told in zip(names, response.responses, strict=True):
            if version < FIRST_VERSION_WITH_TOPIC_IDS:
                assert told.name == topic
            else:
                assert told.topic_id == ids[topic]
            assert [one.index for one in told.partition_responses] == [2, 0]
            for one in told.partition_responses:
                assert (one.error_code, one.base_offset) == (ErrorCode.NONE, offset)
                assert (one.log_append_time_ms > 0) is (topic == names[0])
                assert one.error_message is None


def test_a_failing_partition_among_others_has_its_own_error(client: RawClient, name: str) -> None:
    client.create(name, 2)

    def ask(records: bytes | None) -> list[tuple[int, int]]:
        data = [
            PartitionProduceData(index=0, records=BATCH),
            PartitionProduceData(index=1, records=records),
        ]
        asked = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name=name, partition_data=data)])
        (told,) = client.ask(asked, ProduceResponse, 9).responses
        return [(one.error_code, one.base_offset) for one in told.partition_responses]

    assert ask(BATCH) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
    assert ask(BATCH[:-1]) == [(ErrorCode.NONE, 1), (ErrorCode.INVALID_RECORD, -1)]
    assert ask(BATCH) == [(ErrorCode.NONE, 2), (ErrorCode.NONE, 1)]


@pytest.mark.parametrize(("version", "index"), [(9, 0), (13, 0), (13, 1)])
def test_a_topic_without_partitions_is_not_taken_for_a_partition(
    client: RawClient, name: str, version: int, index: int
) -> None:
    topic_id = client.create(name, 2)

    def ask(*topics: tuple[str, UUID, Sequence[int]]) -> list[list[int]]:
        data = [
            TopicProduceData(
                name=topic,
                topic_id=its_id,
                partition_data=[PartitionProduceData(index=index, records=BATCH) for index in indexes],
            )
            for topic, its_id, indexes in topics
        ]
        told = client.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=data), ProduceResponse, version)
        return [[one.base_offset for one in topic.partition_responses] for topic in told.responses]

    first, second = ask((name, topic_id, [0, index])), ask((name, topic_id, [0]), ("", UUID(int=index), []))
    assert [*map(len, first)] == [2]
    assert second == [[max(first[0]) + 1 if index == 0 else 1], []]
