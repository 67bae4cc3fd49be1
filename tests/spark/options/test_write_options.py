"""Options of writes are accepted under Kafka's and Spark's names, and an invalid one is refused by name."""

import pytest

from headwater.client.delivery import ACKS_ALL
from headwater.errors import ConfigError
from headwater.protocol.batches.compression import Codec
from headwater.spark.options.write_options import AT_LEAST_ONCE, EXACTLY_ONCE, WriteOptions, write_options

SERVERS = {"bootstrap.servers": "localhost:9092"}


def of_batch(**given: str) -> WriteOptions:
    """Keywords have underscores where option names have dots."""
    return write_options(SERVERS | {name.replace("_", "."): value for name, value in given.items()}, is_streaming=False)


def of_stream(**given: str) -> WriteOptions:
    return write_options(SERVERS | {name.replace("_", "."): value for name, value in given.items()}, is_streaming=True)


def test_defaults_are_those_of_kafkas_sink() -> None:
    options = of_stream()

    assert options.topic is None
    assert options.includes_headers
    assert not options.includes_timestamp
    assert options.delivery is None, "as well as the brokers can"
    assert options.application_id is None
    assert options.application_version is None
    assert options.staging_timeout_ms == 900_000
    assert options.codec is Codec.NONE
    assert options.acks == ACKS_ALL


def test_option_names_are_case_insensitive() -> None:
    options = of_batch(TOPIC="t", INCLUDEtimestamp="TRUE", applicationid="a", ApplicationVersion="7")

    assert options.topic == "t"
    assert options.includes_timestamp
    assert (options.application_id, options.application_version) == ("a", 7)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_accepted_with_and_without_the_kafka_prefix(codec: Codec) -> None:
    assert of_batch(compression_type=codec.name.lower()).codec is codec
    assert of_batch(kafka_compression_type=codec.name.lower()).codec is codec


@pytest.mark.parametrize(("given", "acks"), [("0", 0), ("1", 1), ("all", ACKS_ALL), ("-1", ACKS_ALL)])
def test_acks_are_accepted_with_and_without_the_kafka_prefix(given: str, acks: int) -> None:
    assert of_batch(acks=given).acks == acks
    assert of_batch(kafka_acks=given).acks == acks


def test_the_plain_name_overrides_the_prefixed_one() -> None:
    assert of_batch(kafka_acks="0", acks="1").acks == 1


@pytest.mark.parametrize("delivery", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_delivery_is_chosen_by_name(delivery: str) -> None:
    assert of_stream(delivery=delivery.upper()).delivery == delivery


def test_a_stream_may_have_an_application_id_of_its_own() -> None:
    assert of_stream(applicationId="orders").application_id == "orders"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topc": "t"}, "no option 'topc' here; did you mean 'topic'"),
        ({"subscribe": "t"}, "no option 'subscribe' here"),
        ({"delivery": "at-most-once"}, "'delivery' is one of exactly-once, at-least-once, not 'at-most-once'"),
        ({"acks": "2"}, "'acks' is one of 0, 1, -1, all, not '2'"),
        ({"kafka.acks": "none"}, "'acks' is one of"),
        ({"compression.type": "brotli"}, "'compression.type' is one of none, gzip, snappy, lz4, zstd, not 'brotli'"),
        ({"includeHeaders": "yes"}, "'includeHeaders' is true or false, not 'yes'"),
        ({"applicationId": "a"}, "'applicationId' and 'applicationVersion' go together"),
        ({"applicationVersion": "1"}, "'applicationId' and 'applicationVersion' go together"),
        ({"applicationId": "a", "applicationVersion": "-1"}, "'applicationVersion' is at least 0"),
        ({"applicationId": "a", "applicationVersion": "one"}, "'applicationVersion' is a whole number, not 'one'"),
        ({"applicationId": "a", "applicationVersion": str(2**63)}, "'applicationVersion' is at least 0 and at most"),
        ({"applicationId": "", "applicationVersion": "1"}, "'applicationId' is empty"),
        ({"applicationId": "a::staging::b", "applicationVersion": "1"}, "'applicationId' must not contain '::staging"),
        ({"stagingTimeoutMs": "0"}, "'stagingTimeoutMs' is at least 1"),
        ({"stagingTimeoutMs": str(2**31)}, f"'stagingTimeoutMs' is at most {2**31 - 1}"),
        ({"delivery": "exactly-once", "acks": "1"}, "'acks' must be 'all' for exactly-once"),
        ({"topic": ""}, "'topic' is empty"),
    ],
)
def test_invalid_options_are_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write_options(SERVERS | given, is_streaming=False)


def test_an_application_version_is_refused_for_a_stream() -> None:
    with pytest.raises(ConfigError, match="'applicationVersion' is for batch writes only"):
        of_stream(applicationId="a", applicationVersion="1")


def test_the_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"'bootstrap.servers' is missing"):
        write_options({"topic": "t"}, is_streaming=False)
