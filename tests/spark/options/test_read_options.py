"""Options of reads are parsed once, and an invalid one is refused by name."""

from typing import Any

import pytest

from headwater.client.offsets import EARLIEST, LATEST
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.spark.options.read_options import ReadOptions, read_options

MINIMAL = {"bootstrap.servers": "localhost:9092", "subscribe": "orders"}
ORDERS = TopicName("orders")


def parsed(given: dict[str, str] | None = None, *, is_streaming: bool = False, **more: str) -> ReadOptions:
    return read_options({**MINIMAL, **(given or {}), **more}, is_streaming=is_streaming)


def refusal(given: dict[str, str], *, is_streaming: bool = False) -> str:
    with pytest.raises(ConfigError) as caught:
        read_options({**MINIMAL, **given}, is_streaming=is_streaming)
    return str(caught.value)


def test_servers_and_topics_are_the_only_required_options() -> None:
    options = parsed()
    assert (options.starting.when, options.ending.when) == (EARLIEST, LATEST)
    assert options.committed_only
    assert options.fails_on_data_loss
    assert not options.includes_headers
    assert parsed(is_streaming=True).starting.when == LATEST


def test_option_names_are_those_of_sparks_kafka_source_in_any_case() -> None:
    options = read_options(
        {
            "kafka.bootstrap.servers": "a:1,b:2",
            "SUBSCRIBE": "orders, payments,orders",
            "startingoffsets": "earliest",
            "MaxOffsetsPerTrigger": "10",
            "minOffsetsPerTrigger": "5",
            "maxTriggerDelay": "30s",
            "minPartitions": "7",
            "failOnDataLoss": "False",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.client.id": "me",
            "groupIdPrefix": "mine",
            "checkpointLocation": "/somewhere",
        },
        is_streaming=True,
    )
    assert options.broker_address.bootstrap_servers == "a:1,b:2"
    assert ("client.id", "me") in options.broker_address.settings
    assert options.topics.names == ("orders", "payments")
    assert options.starting.when == EARLIEST
    assert (options.offsets_per_trigger_max, options.offsets_per_trigger_min) == (10, 5)
    assert (options.trigger_delay_max_ms, options.partitions_min) == (30_000, 7)
    assert (options.fails_on_data_loss, options.includes_headers, options.committed_only) == (False, True, False)
    assert options.group_id_prefix == "mine"


def test_starting_and_ending_offsets_are_parsed() -> None:
    bound = parsed(startingOffsets='{"orders": {"0": 23, "1": -2}}').starting
    assert bound.offsets == {TopicPartition(ORDERS, 0): 23, TopicPartition(ORDERS, 1): EARLIEST}


def test_a_timestamp_overrides_timestamps_of_partitions_which_override_offsets() -> None:
    given = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"orders": {"0": 2000}}',
        "startingOffsets": "earliest",
    }
    assert parsed(given).starting.when == 1000
    del given["startingTimestamp"]
    assert parsed(given).starting.times_ms == {TopicPartition(ORDERS, 0): 2000}


def test_partitions_are_assigned() -> None:
    options = read_options({"bootstrap.servers": "a:1", "assign": '{"b": [1], "a": [2, 0, 2]}'}, is_streaming=False)
    assert [str(each) for each in options.topics.partitions] == ["a-0", "a-2", "b-1"]


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    assert "did you mean 'startingOffsets'?" in refusal({"startingOffset": "earliest"})
    assert "There are: " in refusal({"zzz": "1"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "orders,,payments"}, "'subscribe' is a list of topics"),
        ({"subscribePattern": "a.*"}, "given: 'subscribe' and 'subscribePattern'"),
        ({"startingOffsets": "begin"}, "'startingOffsets' is 'earliest', 'latest' or JSON"),
        ({"startingOffsets": '{"orders": 5}'}, "'startingOffsets' is "),
        ({"startingOffsets": '{"orders": {"x": 5}}'}, "'startingOffsets' is "),
        ({"startingOffsets": '{"orders": {"0": "5"}}'}, "'startingOffsets' is "),
        ({"startingOffsets": "{}"}, "'startingOffsets' is "),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "does not lie between -2 and"),
        ({"startingOffsets": "latest"}, "a batch read cannot begin at 'latest'"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "a batch read cannot begin at 'latest'"),
        ({"endingOffsets": "earliest"}, "a read cannot end at 'earliest'"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "a read cannot end at 'earliest'"),
        ({"startingTimestamp": "yesterday"}, "'startingTimestamp' is a whole number"),
        ({"startingTimestamp": "-1"}, "'startingTimestamp' is at least 0"),
        ({"startingTimestamp": str(2**62)}, "milliseconds since 1970"),
        ({"minPartitions": "0"}, "'minPartitions' is at least 1"),
        ({"failOnDataLoss": "perhaps"}, "'failOnDataLoss' is true or false"),
        ({"isolation.level": "serializable"}, "'isolation.level' is one of read_committed, read_uncommitted"),
        ({"maxOffsetsPerTrigger": "5"}, "'maxOffsetsPerTrigger' is for streaming reads only"),
        ({"bootstrap.servers": ""}, "'bootstrap.servers' is missing"),
        ({"kafka.bootstrap.servers": "other:1"}, "contradict each other"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
    ],
)
def test_invalid_options_are_refused_by_name(given: dict[str, str], said: str) -> None:
    assert said in refusal(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endingOffsets": "latest"}, "'endingOffsets' is for batch reads only"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "'minOffsetsPerTrigger' is greater"),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay' is a time such as"),
    ],
)
def test_invalid_options_of_a_stream_are_refused_by_name(given: dict[str, str], said: str) -> None:
    assert said in refusal(given, is_streaming=True)


@pytest.mark.parametrize("given", [{"assign": '{"orders": []}'}, {"assign": '{"orders": [-1]}'}, {"assign": "[0]"}])
def test_assignments_that_name_no_partition_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="'assign' is JSON"):
        read_options({"bootstrap.servers": "a:1", **given}, is_streaming=False)


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="no regular expression"):
        read_options({"bootstrap.servers": "a:1", "subscribePattern": "a("}, is_streaming=False)
