"""A task reads exactly its range, and damaged batches are reported with their place."""

from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer, FetchedBatch
from headwater.client.errors import ClientError
from headwater.spark.options.broker_address import BrokerAddress
from headwater.spark.options.read_options import read_options
from headwater.spark.reads.plan import OffsetRange
from headwater.spark.reads.range_reader import RangePartition, _fetch, _Rows, read_range
from headwater.testing import Broker
from tests.support.spark.reads import batch, numbered, one, produce, rows, values


def fetched(cluster: Cluster, topic: str, wanted: OffsetRange) -> list[FetchedBatch]:
    options = read_options({"bootstrap.servers": "unused:1", "subscribe": topic}, is_streaming=False)
    return list(_fetch(cluster, wanted, options))


def test_batches_beyond_the_range_are_not_decompressed(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, numbered(100), batch_records_max=10)

    found = fetched(cluster, topic, OffsetRange(one(topic), 25, 41))

    assert [each.header.base_offset for each in found] == [20, 30, 40]


def test_ranges_that_cut_batches_give_each_record_once(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, numbered(100), batch_records_max=30)
    reader = batch(headwater_broker, {"subscribe": topic})
    cuts = [0, 1, 29, 30, 31, 60, 89, 100]

    planned = [RangePartition(OffsetRange(one(topic), start, end)) for start, end in pairwise(cuts)]

    assert values(rows(reader, planned)) == numbered(100)


def test_a_batch_whose_records_contradict_its_header_is_reported_with_its_place(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, numbered(3))
    [sound] = Consumer(cluster, {one(topic): 0}).fetch_batches()
    broken = sound._replace(header=sound.header._replace(record_count=4))
    schema = pa.schema([("value", pa.binary())])

    with pytest.raises(ClientError, match=f"{topic}-0, batch at offset 0: "):
        list(_Rows(OffsetRange(one(topic), 0, 3), schema).take_in(broken))


def test_an_abandoned_task_leaves_no_data_to_the_next(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, numbered(100), batch_records_max=30)
    reader = batch(headwater_broker, {"subscribe": topic})
    planned = [RangePartition(OffsetRange(one(topic), 0, 100))]
    assert values(rows(reader, planned)) == numbered(100)

    schema = pa.schema([(name, pa.binary()) for name in ("key", "value", "offset", "timestamp")])
    given_up = _Rows(OffsetRange(one(topic), 0, 100), schema)
    assert not list(given_up.take_in(fetched(cluster, topic, OffsetRange(one(topic), 0, 10))[0]))

    assert values(rows(reader, planned)) == numbered(100)


def test_an_empty_range_sends_no_request() -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    options = read_options(given, is_streaming=False)
    assert list(read_range(RangePartition(None), options, StructType([]))) == []
    assert not BrokerAddress("127.0.0.1:1").cluster()._connections
