"""The options of a read, under the names of Spark's Kafka source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.client.offsets import EARLIEST, LATEST
from headwater.errors import ConfigError
from headwater.ids import TopicName
from headwater.spark.options import client_settings, format_options
from headwater.spark.options.bounds import Bound, ending, starting
from headwater.spark.options.broker_address import BOOTSTRAP, BrokerAddress, broker_address
from headwater.spark.options.format_options import FormatOptions
from headwater.spark.options.options import Options
from headwater.spark.options.topic_choice import CHOICES, TopicChoice, topic_choice

_ENDINGS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TRIGGERS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_TRIGGERS_FOLDED: Final = frozenset(name.lower() for name in _TRIGGERS)
INCLUDE_HEADERS: Final = "includeHeaders"
DEAD_LETTERS: Final = "deadLetters"
NAMES: Final = (
    BOOTSTRAP,
    *CHOICES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_ENDINGS,
    *_TRIGGERS,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    INCLUDE_HEADERS,
    DEAD_LETTERS,
    "isolation.level",
    "groupIdPrefix",
    "group.id",
    "pushFilters",
    "timestampOrder",
    *format_options.NAMES,
)
_TRIGGER_DELAY: Final = "15m"
_GROUP_ID_PREFIX: Final = "headwater-spark"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    broker_address: BrokerAddress
    topics: TopicChoice
    starting: Bound
    ending: Bound
    # Whether a partition without records since the starting time begins at its end; otherwise that is an error.
    is_latest_for_late_times: bool
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_max_ms: int
    partitions_min: int | None
    records_per_partition_max: int | None
    fails_on_data_loss: bool
    includes_headers: bool
    # Whether the topics are dead-letter topics, whose headers are read as columns.
    dead_letters: bool
    committed_only: bool
    group_id: str | None
    group_id_prefix: str
    # None: where Spark's session asks for it.
    pushes_filters: bool | None
    timestamps_ordered: bool
    formats: FormatOptions


def read_options(given: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    options = Options(given, NAMES)
    _refuse(options, _ENDINGS if is_streaming else _TRIGGERS, "batch" if is_streaming else "streaming")
    client_settings.refuse_for_reads(options)
    isolation = _isolation(options)
    offsets_max = options.integer("maxOffsetsPerTrigger")
    offsets_min = options.integer("minOffsetsPerTrigger")
    if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
        raise ConfigError("option 'minOffsetsPerTrigger' is greater than 'maxOffsetsPerTrigger'")
    address = broker_address(options)
    topics = topic_choice(options)
    formats = format_options.format_options(options)
    if formats.bad_records.topic is not None and _reads(topics, formats.bad_records.topic):
        raise ConfigError("option 'badRecords' names a topic that is read here: bad records would come back for ever")
    return ReadOptions(
        broker_address=address,
        topics=topics,
        starting=starting(options, LATEST if is_streaming else EARLIEST),
        ending=ending(options),
        is_latest_for_late_times=options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "latest",
        offsets_per_trigger_max=offsets_max,
        offsets_per_trigger_min=offsets_min,
        trigger_delay_max_ms=options.duration_ms("maxTriggerDelay", _TRIGGER_DELAY),
        partitions_min=options.integer("minPartitions"),
        records_per_partition_max=options.integer("maxRecordsPerPartition"),
        fails_on_data_loss=options.boolean("failOnDataLoss", default=True),
        includes_headers=includes_headers(options),
        dead_letters=options.boolean(DEAD_LETTERS, default=False),
        committed_only=isolation == "read_committed",
        group_id=options.text("group.id") or dict(address.settings).get("group.id"),
        group_id_prefix=options.text("groupIdPrefix") or _GROUP_ID_PREFIX,
        pushes_filters=_pushes_filters(options),
        timestamps_ordered=options.choice("timestampOrder", ("any", "rising"), "any") == "rising",
        formats=formats,
    )


def includes_headers(options: Options) -> bool:
    """Dead letters always have the column: they are put back with it."""
    return options.boolean(INCLUDE_HEADERS, default=False) or options.boolean(DEAD_LETTERS, default=False)


def _isolation(options: Options) -> str:
    alias = options.client_settings().get("isolation.level", "read_committed")
    return options.choice("isolation.level", ("read_committed", "read_uncommitted"), alias)


def _pushes_filters(options: Options) -> bool | None:
    return None if options.text("pushFilters") is None else options.boolean("pushFilters", default=False)


def _reads(topics: TopicChoice, name: TopicName) -> bool:
    """Whether the read includes the topic, or would include it if the topic existed."""
    if topics.pattern is not None:
        return re.fullmatch(topics.pattern, name, re.ASCII) is not None
    return name in topics.names or any(partition.topic == name for partition in topics.partitions)


def _refuse(options: Options, names: tuple[str, ...], kind: str) -> None:
    for name in names:
        if options.text(name) is not None:
            raise ConfigError(f"option {name!r} is for {kind} reads only")


def check_options(given: Mapping[str, str]) -> None:
    """Refuse what neither a batch read nor a stream could have. Where a read is defined, Spark does not say which it
    is."""
    is_streaming = any(name.lower() in _TRIGGERS_FOLDED for name in given)
    try:
        read_options(given, is_streaming=is_streaming)
    except ConfigError as error:
        try:
            read_options(given, is_streaming=not is_streaming)
        except ConfigError:
            raise error from None
