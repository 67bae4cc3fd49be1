"""Requests that no honest client sends: refused with Kafka's codes, without harm to the partition or other clients."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.records.fetch import FetchResponse, ReplicaState
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.testing import Broker
from tests.support.kafka.raw_client import (
    NOW_MS,
    RawClient,
    batch_of,
    batch_of_records,
    fetch_request,
    frame,
    produce_request,
    records_of,
)

GOOD = batch_of(b"one", b"two")

# The position and format of each field of a batch header.
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, MAX_TIMESTAMP = 8, 16, 17, 21, 23, 35
PRODUCER_ID, BASE_SEQUENCE, RECORD_COUNT = 43, 53, 57


@pytest.fixture
def neighbour(broker: Broker) -> Iterator[RawClient]:
    """Another client of the same broker, which must not be affected."""
    with RawClient(broker) as neighbour:
        yield neighbour


def patched(batch: bytes, position: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    """The batch with another value in one header field; the checksum is corrected if `sealed`."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    if sealed:
        struct.pack_into(">I", changed, CRC, batches.crc32c(bytes(changed[ATTRIBUTES:])))
    return bytes(changed)


def with_payload(payload: bytes, count: int, codec: int = Codec.NONE) -> bytes:
    """A batch with a valid checksum around the given bytes as records."""
    stored = compression.compress(codec, payload) if codec else payload
    return bytes(batches.with_payload(batch_of(*[b""] * count), stored, codec))


def record(
    *, length: int | None = None, key: bytes = b"\x02k", value: bytes = b"\x02v", headers: bytes = b"\x00"
) -> bytes:
    """One record in the wire form; lengths are zigzag, so that 2 stands for 1."""
    body = b"\x00\x00\x00" + key + value + headers
    return bytes([2 * (len(body) if length is None else length)]) + body


LIES = {
    "fewer records than counted": (record(), 2),
    "more records than counted": (record() + record(), 1),
    "a record that ends early": (record(length=20), 1),
    "a record that ends late": (record(length=7), 1),
    "a negative record length": (b"\x01" + record(), 1),
    "a key past the end": (record(key=b"\x7ek"), 1),
    "a value past the end": (record(value=b"\x7ev"), 1),
    "more headers than bytes": (record(headers=b"\x7e"), 1),
    "a header with no key": (record(headers=b"\x02\x01\x01"), 1),
    "a varint without end": (b"\xff" * 40, 1),
    "offsets out of order": (record() + record(), 2),
    "nothing at all": (b"", 1),
}

INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
TOO_LARGE, TIMESTAMP = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP

REFUSED_BATCHES: dict[str, tuple[bytes | None, ErrorCode]] = {
    "null records": (None, INVALID),
    "empty records": (b"", INVALID),
    "less than a header": (GOOD[:60], INVALID),
    "magic 0": (patched(GOOD, MAGIC, ">b", 0), INVALID),
    "magic 1": (patched(GOOD, MAGIC, ">b", 1), INVALID),
    "magic 3": (patched(GOOD, MAGIC, ">b", 3), CORRUPT),
    "negative magic": (patched(GOOD, MAGIC, ">b", -1), CORRUPT),
    "a message of format 0": (bytes(8) + struct.pack(">iIbbii", 14, 0, 0, 0, -1, -1), INVALID),
    "a broken checksum": (patched(GOOD, CRC, ">I", 12345, sealed=False), CORRUPT),
    "a bit flipped in the records": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), CORRUPT),
    "a length beyond the end": (patched(GOOD, LENGTH, ">i", len(GOOD)), INVALID),
    "a length of zero": (patched(GOOD, LENGTH, ">i", 0), CORRUPT),
    "a negative length": (patched(GOOD, LENGTH, ">i", -100), CORRUPT),
    "two batches": (GOOD + GOOD, INVALID),
    "a base offset": (patched(GOOD, 0, ">q", 7), INVALID),
    "more than max.message.bytes": (batch_of(bytes(1 << 20)), TOO_LARGE),
    "a control batch": (batch_of(b"v", control=True, transactional=True, producer_id=1, producer_epoch=0), INVALID),
    "no records": (patched(GOOD, RECORD_COUNT, ">i", 0), INVALID),
    "a negative record count": (patched(GOOD, RECORD_COUNT, ">i", -1), INVALID),
    "a count unlike the offsets": (patched(GOOD, LAST_OFFSET_DELTA, ">i", 5), INVALID),
    "a negative last offset": (patched(GOOD, LAST_OFFSET_DELTA, ">i", -5), INVALID),
    "two billion records": (
        patched(patched(GOOD, RECORD_COUNT, ">i", 2**31 - 1), LAST_OFFSET_DELTA, ">i", 2**31 - 2),
        INVALID,
    ),
    "a producer without sequence": (batch_of(b"v", producer_id=7, producer_epoch=0, base_sequence=-1), INVALID),
    "a time set as the broker's": (batch_of(b"v", log_append_time_ms=NOW_MS), TIMESTAMP),
    "a time far ahead": (batch_of(b"v", timestamp=2**45), TIMESTAMP),
    "an unknown codec": (patched(GOOD, ATTRIBUTES, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    **{
        f"{name} cut off": (
            bytes(batches.with_payload(GOOD, compression.compress(codec, GOOD[61:])[:-5], codec)),
            INVALID,
        )
        for name, codec in (("gzip", Codec.GZIP), ("snappy", Codec.SNAPPY), ("lz4", Codec.LZ4), ("zstd", Codec.ZSTD))
    },
    **{
        f"{name} that is none": (bytes(batches.with_payload(GOOD, b"\x00garbage\xff" * 9, codec)), INVALID)
        for name, codec in (("gzip", Codec.GZIP), ("snappy", Codec.SNAPPY), ("lz4", Codec.LZ4), ("zstd", Codec.ZSTD))
    },
    **{f"{name}, plain": (with_payload(*lie), INVALID) for name, lie in LIES.items()},
    **{f"{name}, zstd": (with_payload(*lie, Codec.ZSTD), INVALID) for name, lie in LIES.items()},
    **{f"{name}, gzip": (with_payload(*lie, Codec.GZIP), INVALID) for name, lie in LIES.items()},
}


def log_bytes(broker: Broker, topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition_directory(broker, topic).glob("*.log")))


def partition_directory(broker: Broker, topic: str) -> Path:
    return broker.data_directory / f"{topic}-0"


@pytest.mark.parametrize(("data", "code"), REFUSED_BATCHES.values(), ids=REFUSED_BATCHES)
def test_a_bad_batch_is_refused_with_kafkas_code_and_leaves_no_trace(
    broker: Broker, client: RawClient, neighbour: RawClient, topic: str, data: bytes | None, code: ErrorCode
) -> None:
    client.produce(topic, GOOD)
    before = log_bytes(broker, topic)

    refused = client.produce(topic, data)

    assert ErrorCode(refused.error_code) is code
    assert refused.base_offset == -1
    assert refused.error_message
    assert log_bytes(broker, topic) == before
    assert client.offset(topic) == 2, "the connection goes on, and the end has not moved"
    assert neighbour.produce(topic, GOOD).base_offset == 2


@pytest.mark.parametrize("codec", Codec)
def test_a_compressed_batch_with_invalid_records_is_refused_in_every_codec(
    client: RawClient, topic: str, codec: Codec
) -> None:
    assert client.produce(topic, with_payload(record(), 2, codec)).error_code == INVALID
    assert client.offset(topic) == 0


def test_one_bad_partition_does_not_fail_the_others_of_its_request(client: RawClient, name: str) -> None:
    client.create(name, partitions=3)
    bad = patched(GOOD, CRC, ">I", 1, sealed=False)

    response = client.ask(produce_request({name: {0: GOOD, 1: bad, 2: GOOD, 9: GOOD}}), ProduceResponse, 9)

    codes = {one.index: ErrorCode(one.error_code) for one in response.responses[0].partition_responses}
    assert codes == {
        0: ErrorCode.NONE,
        1: ErrorCode.CORRUPT_MESSAGE,
        2: ErrorCode.NONE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [client.offset(name, partition=index) for index in range(3)] == [2, 0, 2]


def test_a_decompression_bomb_is_refused_before_it_is_decompressed(name: str) -> None:
    with Broker({"headwater.batch.decompressed.bytes.max": "65536"}) as broker, RawClient(broker) as client:
        client.create(name)
        small = batch_of(bytes(60_000), codec=Codec.ZSTD)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            bomb = batch_of(bytes(1_000_000), codec=codec)
            assert len(bomb) < 100_000
            assert client.produce(name, bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert client.offset(name) == 0
        assert client.produce(name, small).error_code == ErrorCode.NONE


def test_a_compacted_topic_refuses_records_without_key(client: RawClient, name: str) -> None:
    client.create(name, cleanup_policy="compact")

    for codec in (Codec.NONE, Codec.LZ4):
        assert client.produce(name, batch_of(b"v", key=None, codec=codec)).error_code == INVALID
    assert client.offset(name) == 0
    assert client.produce(name, batch_of(b"v", key=b"")).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_refusal_names_all_records_that_are_to_blame_and_no_others(
    client: RawClient, name: str, codec: Codec
) -> None:
    client.create(name, cleanup_policy="compact")
    keys = [b"k", None, b"k", None, None]
    records = [Record(index, NOW_MS, key, b"value" * 10) for index, key in enumerate(keys)]

    refused = client.produce(name, batch_of_records(records, codec=codec))

    assert refused.error_code == INVALID
    assert [error.batch_index for error in refused.record_errors] == [1, 3, 4]
    assert all("key" in (error.batch_index_error_message or "") for error in refused.record_errors)


def test_a_refusal_does_not_outgrow_the_batch_that_it_is_for(client: RawClient, name: str) -> None:
    client.create(name, cleanup_policy="compact")
    batch = batch_of_records([Record(index, NOW_MS, None, b"") for index in range(20_000)], codec=Codec.ZSTD)

    refused = client.produce(name, batch)

    assert 16 < len(refused.record_errors) < len(batch) / 8


def test_zstd_is_refused_in_versions_that_do_not_know_it(client: RawClient, topic: str) -> None:
    data = batch_of(b"v", codec=Codec.ZSTD)

    assert client.produce(topic, data, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce(topic, data, version=7).error_code == ErrorCode.NONE


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_unknown_acks_values_are_refused(client: RawClient, topic: str, acks: int) -> None:
    assert client.produce(topic, GOOD, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert client.offset(topic) == 0


def test_an_unknown_topic_name_of_maximum_length_is_refused_in_the_reply(client: RawClient, topic: str) -> None:
    """The refusal quotes the name and must still fit into the error message, without harm to another topic's reply."""
    request = produce_request({"x" * 32_767: {0: GOOD}, topic: {0: GOOD}})
    unknown, known = client.ask(request, ProduceResponse, 8).responses

    assert unknown.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known.partition_responses[0].error_code == ErrorCode.NONE


def test_a_request_with_too_many_elements_closes_the_connection(broker: Broker) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(100_001)])
    with RawClient(broker) as client:
        client.send(request, 9)
        assert client.is_closed()


def test_a_topic_named_twice_is_described_once(client: RawClient, topic: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic), MetadataRequestTopic(name=topic)])
    assert [one.name for one in client.ask(request, MetadataResponse, 9).topics] == [topic]


def test_a_refused_batch_with_acks_0_closes_the_connection(broker: Broker, client: RawClient, topic: str) -> None:
    """As in Kafka: with acks=0 a closed connection is the only way to report an error."""
    with RawClient(broker) as silent:
        silent.send(produce_request({topic: {0: GOOD}}, acks=0), 9)
        silent.send(produce_request({topic: {0: GOOD[:-1]}}, acks=0), 9)
        assert silent.is_closed()

    assert [record.offset for record in client.records(topic)] == [0, 1], "what was right before it stays"


def test_a_plain_batch_with_a_transactional_id_is_refused(client: RawClient, topic: str) -> None:
    request = produce_request({topic: {0: GOOD}}, transactional_id="tx")
    response = client.ask(request, ProduceResponse, 9)

    code = response.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.INVALID_TXN_STATE
    assert client.offset(topic) == 0


@pytest.mark.parametrize(("known", "partition"), [(False, 0), (True, 1), (True, -1), (True, 2**31 - 1)])
def test_produce_fetch_and_list_offsets_refuse_unknown_partitions(
    client: RawClient, topic: str, known: bool, partition: int
) -> None:
    name = topic if known else "nobody"

    assert client.produce(name, GOOD, partition=partition).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch(name, 0, partition=partition).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.look_up(name, -1, partition=partition).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_produce_and_fetch_refuse_unknown_topic_ids(client: RawClient) -> None:
    topic_id = uuid4()
    produce = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="", topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=GOOD)])
        ],
    )
    produced = client.ask(produce, ProduceResponse, 13).responses[0]
    fetched = client.ask(fetch_request({topic_id: {0: 0}}), FetchResponse, 13).responses[0]

    assert (produced.topic_id, produced.partition_responses[0].error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    assert (fetched.topic_id, fetched.partitions[0].error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("offset", [-1, 3, 2**63 - 1, -(2**63)])
def test_an_offset_outside_the_log_is_out_of_range(client: RawClient, topic: str, offset: int) -> None:
    client.produce(topic, GOOD)

    fetched = client.fetch(topic, offset)

    assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (fetched.high_watermark, fetched.log_start_offset, fetched.last_stable_offset) == (-1, -1, -1)
    assert client.fetch(topic, 2).error_code == ErrorCode.NONE, "the end itself is where new records will be"


@pytest.mark.parametrize("version", [4, 6, 7, 12, 14, 15, 17])
def test_a_client_may_not_fetch_as_a_replica(client: RawClient, topic: str, version: int) -> None:
    """CVE-2018-1288: a client that poses as a replica could disturb replication."""
    client.produce(topic, GOOD)
    by_id = version >= 13
    topic_id = client.create(f"{topic}-by-id") if by_id else None
    offsets = {topic_id: {0: 0}} if topic_id is not None else {topic: {0: 0}}
    as_replica: dict[str, Any] = {"replica_state": ReplicaState(replica_id=1)} if version >= 15 else {"replica_id": 1}

    response = client.ask(fetch_request(offsets, **as_replica), FetchResponse, version)

    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records


def test_a_fetch_without_topics_is_answered_without_topics(client: RawClient) -> None:
    response = client.ask(fetch_request({}, wait_ms=60_000), FetchResponse, 12)
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])


@pytest.mark.parametrize("size", [0, -1, -1000, -(2**31)])
def test_negative_fetch_limits_still_return_the_first_batch(client: RawClient, topic: str, size: int) -> None:
    client.produce(topic, GOOD)
    client.produce(topic, GOOD)

    fetched = client.fetch(topic, 0, partition_bytes=size, max_bytes=size, min_bytes=size)

    assert [one.value for one in records_of(fetched)] == [b"one", b"two"]


def request_frame(key: int, version: int, body: bytes = b"", *, client_id: bytes = b"\x00\x01x") -> bytes:
    content = struct.pack(">hhi", key, version, 1) + client_id + body
    return struct.pack(">i", len(content)) + content


UNTRUSTED: dict[str, Callable[[], bytes]] = {
    "an unknown API": lambda: request_frame(999, 0),
    "a negative API": lambda: request_frame(-1, 0),
    "an API that is not served yet": lambda: request_frame(24, 3),
    "an API of brokers among themselves": lambda: request_frame(4, 1),
    "a version too new": lambda: request_frame(3, 99, b"\x00"),
    "a version too old": lambda: request_frame(0, 2),
    "a negative version": lambda: request_frame(3, -1),
    "a negative frame": lambda: struct.pack(">i", -1),
    "an oversize frame": lambda: struct.pack(">i", 100 * 1024 * 1024 + 1),
    "the largest number as a size": lambda: b"\x7f\xff\xff\xff",
    "a frame with nothing in it": lambda: bytes(4),
    "a header cut short": lambda: struct.pack(">i", 5) + b"\x00\x03\x00\x00\x00",
    "a client id past the end": lambda: request_frame(3, 1, client_id=b"\x7f\xffx"),
    "a client id of negative length": lambda: request_frame(3, 1, client_id=b"\xff\xfex"),
    "a client id that is no text": lambda: request_frame(3, 1, client_id=b"\x00\x02\xff\xfe"),
    "a body cut short": lambda: request_frame(3, 1, b"\x00\x00\x00\x05"),
    "an array of two billion topics": lambda: request_frame(3, 1, b"\x7f\xff\xff\xff"),
    "a compact array longer than its frame": lambda: request_frame(3, 9, b"\x00\xff\xff\xff\xff\x0f"),
    "a topic name that is no text": lambda: request_frame(3, 1, b"\x00\x00\x00\x01\x00\x02\xff\xfe"),
    "a web browser": lambda: b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "a TLS handshake": lambda: bytes.fromhex("16030100c8010000c40303") + bytes(200),
}


@pytest.mark.parametrize("data", UNTRUSTED.values(), ids=UNTRUSTED)
def test_only_the_connection_with_malformed_bytes_is_closed(
    client: RawClient, neighbour: RawClient, topic: str, data: Callable[[], bytes]
) -> None:
    neighbour.produce(topic, GOOD)

    client.send_bytes(data())

    assert client.is_closed()
    assert neighbour.offset(topic) == 2


def test_an_incomplete_frame_gets_neither_error_nor_answer(broker: Broker, client: RawClient) -> None:
    whole = frame(ApiVersionsRequest(), 0)
    with RawClient(broker) as other:
        other.send_bytes(whole[:-1])
        assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
        other.send_bytes(whole[-1:])
        assert other.receive(ApiVersionsResponse, 0)[1].error_code == 0
        other.send_bytes(whole[:7])
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_trailing_bytes_of_a_request_are_ignored(client: RawClient) -> None:
    """As Kafka's broker does: librdkafka's Metadata request has trailing bytes."""
    content = frame(MetadataRequest(topics=[]), 4)[4:] + b"more"
    client.send_bytes(len(content).to_bytes(4, "big") + content)

    assert client.receive(MetadataResponse, 4)[1].topics == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(min_size=1, max_size=200), key=st.integers(0, 80), version=st.integers(-1, 20))
def test_arbitrary_bytes_do_not_harm_the_broker(
    broker: Broker, client: RawClient, garbage: bytes, key: int, version: int
) -> None:
    """After any bytes from one client, framed or not, the broker serves another."""
    with RawClient(broker) as vandal:
        vandal.send_bytes(request_frame(key, version, garbage))
    with RawClient(broker) as vandal:
        vandal.send_bytes(garbage)

    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
