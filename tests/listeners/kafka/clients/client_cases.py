"""The cases that every real client must pass, written once; each client has an adapter."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.testing import Broker

MIB = 1 << 20
LARGE = {"max.message.bytes": str(11 * MIB)}
# In the order of Kafka's codes.
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class Message(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = 1_700_000_000_000


class Refused(Exception):
    """The broker refused with this error code."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


class Adapter(Protocol):
    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Sends the messages and returns their offsets in order (unknown to the client with acks=0)."""
        ...

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]: ...

    def offset_at(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None: ...

    def offsets(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        """The first offset, and the offset of the next record."""
        ...

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None: ...

    def delete(self, topic: str) -> None: ...

    def add_partitions(self, topic: str, count: int) -> None: ...

    def partition_count(self, topic: str) -> int: ...

    def topics(self) -> set[str]: ...

    def config(self, topic: str) -> dict[str, str | None]: ...

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None: ...

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        """Deletes records and returns the new first offset."""
        ...

    def cluster(self) -> tuple[str, list[int]]:
        """The cluster's id and its brokers."""
        ...


def numbered(count: int) -> list[Message]:
    return [Message(b"value %d" % n, b"key %d" % n, timestamp=1_700_000_000_000 + 1000 * n) for n in range(count)]


class ClientCases:
    @pytest.mark.parametrize("compression", COMPRESSIONS)
    def test_every_compression_comes_back_as_it_went(
        self, adapter: Adapter, broker: Broker, name: str, compression: str
    ) -> None:
        adapter.create(name)
        sent = [Message(b"%d " % n * 200, b"k%d" % n) for n in range(50)]

        assert adapter.produce(name, sent, compression=compression) == list(range(50))
        assert adapter.consume(name, 50) == sent
        stored = (broker.data_directory / f"{name}-0" / f"{0:020}.log").read_bytes()
        codecs = {header.codec for header, _ in batches.iterate(stored)}
        assert codecs == {COMPRESSIONS.index(compression)}, (
            "a client may choose not to compress for a broker it mistrusts"
        )

    def test_keys_headers_empty_and_null_values_keep_their_difference(self, adapter: Adapter, name: str) -> None:
        adapter.create(name)
        sent = [
            Message(b"v", b"k", (("a", b"1"), ("a", b"2"), ("empty", b""))),
            Message(b"", b""),
            Message(None, b"tombstone"),
            Message(b"no key", None),
            Message("Grüße".encode(), "schlüssel".encode(), (("ümlaut", "ß".encode()),)),
            Message(bytes(range(256)), bytes(range(255, -1, -1))),
        ]
        adapter.produce(name, sent)

        assert adapter.consume(name, len(sent)) == sent

    @pytest.mark.parametrize("compression", ["none", "lz4"])
    def test_records_from_one_byte_to_ten_mebibytes(self, adapter: Adapter, name: str, compression: str) -> None:
        adapter.create(name, config=LARGE)
        sent = [Message(b"x"), Message(bytes(range(256)) * (10 * MIB // 256)), Message(b"y")]
        adapter.produce(name, sent, compression=compression)

        assert adapter.consume(name, 3) == sent

    def test_a_record_over_the_topics_limit_is_refused(self, adapter: Adapter, name: str) -> None:
        adapter.create(name, config={"max.message.bytes": "1000"})

        with pytest.raises(Refused) as refused:
            adapter.produce(name, [Message(bytes(2000))])

        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert adapter.offsets(name) == (0, 0)

    def test_reading_starts_at_any_offset(self, adapter: Adapter, name: str) -> None:
        adapter.create(name)
        sent = numbered(20)
        adapter.produce(name, sent)

        assert adapter.consume(name, 7, offset=13) == sent[13:]

    def test_an_offset_is_found_by_time(self, adapter: Adapter, name: str) -> None:
        adapter.create(name)
        sent = numbered(20)
        adapter.produce(name, sent)

        assert adapter.offset_at(name, sent[0].timestamp - 1) == 0
        assert adapter.offset_at(name, sent[7].timestamp) == 7
        assert adapter.offset_at(name, sent[7].timestamp + 1) == 8
        assert adapter.offset_at(name, sent[19].timestamp + 1) is None

    def test_partitions_are_kept_apart(self, adapter: Adapter, name: str) -> None:
        adapter.create(name, 3)
        for partition in range(3):
            adapter.produce(name, [Message(b"%d" % partition)] * (partition + 1), partition=partition)

        assert [adapter.offsets(name, partition=partition)[1] for partition in range(3)] == [1, 2, 3]
        assert adapter.consume(name, 3, partition=2) == [Message(b"2")] * 3

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_every_kind_of_acknowledgement_delivers(self, adapter: Adapter, name: str, acks: str) -> None:
        adapter.create(name)
        sent = numbered(5)
        adapter.produce(name, sent, acks=acks)

        assert adapter.consume(name, 5) == sent

    def test_an_idempotent_producer_delivers_once_and_in_order(self, adapter: Adapter, name: str) -> None:
        adapter.create(name)
        sent = numbered(500)

        assert adapter.produce(name, sent, idempotent=True) == list(range(500))
        assert adapter.produce(name, sent[:1], idempotent=True) == [500], "a new producer is another one"
        assert adapter.consume(name, 501) == [*sent, sent[0]]

    def test_a_topic_is_created_described_and_deleted(self, adapter: Adapter, broker: Broker, name: str) -> None:
        adapter.create(name, 4, {"retention.ms": "12345"})
        assert name in adapter.topics()
        assert adapter.partition_count(name) == 4
        assert adapter.config(name)["retention.ms"] == "12345"

        with pytest.raises(Refused) as refused:
            adapter.create(name)
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

        adapter.delete(name)
        assert name not in adapter.topics()
        assert not list(broker.data_directory.glob(f"{name}-*"))
        with pytest.raises(Refused) as refused:
            adapter.delete(name)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_topic_deleted_and_created_again_is_empty(self, adapter: Adapter, name: str) -> None:
        adapter.create(name)
        adapter.produce(name, numbered(3))
        adapter.delete(name)
        adapter.create(name)

        assert adapter.offsets(name) == (0, 0)
        assert adapter.produce(name, [Message(b"new")]) == [0]

    @pytest.mark.parametrize(
        ("topic", "partitions", "config", "code"),
        [
            ("no/slash", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("..", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("bad-setting", 1, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
            ("unknown-setting", 1, {"retention.mss": "1"}, ErrorCode.INVALID_CONFIG),
        ],
    )
    def test_a_topic_that_cannot_be_is_not_created(
        self, adapter: Adapter, topic: str, partitions: int, config: dict[str, str], code: ErrorCode
    ) -> None:
        with pytest.raises(Refused) as refused:
            adapter.create(topic, partitions, config)

        assert refused.value.code is code
        assert topic not in adapter.topics()

    def test_partitions_are_added_and_never_taken_away(self, adapter: Adapter, name: str) -> None:
        adapter.create(name, 2)
        adapter.produce(name, numbered(3), partition=1)
        adapter.add_partitions(name, 5)
        assert adapter.partition_count(name) == 5
        adapter.produce(name, numbered(2), partition=4)

        with pytest.raises(Refused) as refused:
            adapter.add_partitions(name, 3)
        assert refused.value.code is ErrorCode.INVALID_PARTITIONS
        assert adapter.offsets(name, partition=1) == (0, 3)

    def test_all_settings_of_a_topic_are_replaced(self, adapter: Adapter, name: str) -> None:
        adapter.create(name, config={"retention.ms": "1000", "segment.bytes": "2000000"})
        adapter.replace_config(name, {"max.message.bytes": "3000"})

        found = adapter.config(name)
        assert (found["max.message.bytes"], found["retention.ms"]) == ("3000", "604800000")
        with pytest.raises(Refused):
            adapter.produce(name, [Message(bytes(4000))])

    def test_records_are_deleted_from_the_start(self, adapter: Adapter, name: str) -> None:
        adapter.create(name)
        sent = numbered(10)
        adapter.produce(name, sent)

        assert adapter.delete_records(name, 4) == 4
        assert adapter.offsets(name) == (4, 10)
        assert adapter.consume(name, 6, offset=4) == sent[4:]
        assert adapter.delete_records(name, -1) == 10, "-1 stands for the end"
        assert adapter.offsets(name) == (10, 10)

    def test_the_cluster_is_this_one_broker(self, adapter: Adapter, broker: Broker) -> None:
        cluster_id, nodes = adapter.cluster()
        assert cluster_id == broker.node.broker.cluster_id
        assert nodes == [1]
