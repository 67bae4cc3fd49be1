"""The options of a write, under the names of Spark's Kafka sink and of Kafka's producer settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.client.delivery import ACKS_ALL
from headwater.errors import ConfigError
from headwater.ids import STAGING_INFIX, TopicName
from headwater.protocol.batches.compression import Codec
from headwater.spark.options import client_settings, registry_options
from headwater.spark.options.broker_address import BOOTSTRAP, BrokerAddress, broker_address
from headwater.spark.options.options import Options
from headwater.spark.options.registry_options import RegistryColumn

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

INCLUDE_DIRECTIVES: Final = "includeDirectives"
REDRIVE: Final = "redrive"

_NAMES: Final = (
    BOOTSTRAP,
    "topic",
    "includeHeaders",
    "includeTimestamp",
    INCLUDE_DIRECTIVES,
    REDRIVE,
    "delivery",
    "applicationId",
    "applicationVersion",
    "stagingTimeoutMs",
    "compression.type",
    "acks",
    *registry_options.NAMES,
    *(f"{column}.{each}" for column in registry_options.COLUMNS for each in ("format", "message")),
)
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_ACKS: Final = {"0": 0, "1": 1, "-1": ACKS_ALL, "all": ACKS_ALL}
# A broker's default for transaction.max.timeout.ms.
_STAGING_TIMEOUT_MS: Final = 15 * 60_000
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`delivery` is None if the broker's abilities decide. `application_id` and `application_version` are None if not
    given: a stream then uses the id of its query and counts its batches, a batch write uses a random id."""

    broker_address: BrokerAddress
    topic: TopicName | None
    includes_headers: bool
    includes_timestamp: bool
    # Whether columns such as `deliver_at` and `priority` become headers that the broker heeds.
    includes_directives: bool
    # Whether the rows are dead letters, to be put back where they came from.
    redrives: bool
    delivery: str | None
    application_id: str | None
    application_version: int | None
    staging_timeout_ms: int
    codec: Codec
    acks: int
    # The schemas of the columns that are written with one (`value.format` = `registry`).
    schemas: Mapping[str, RegistryColumn] = field(default_factory=dict[str, RegistryColumn])


def write_options(given: Mapping[str, str], *, is_streaming: bool) -> WriteOptions:
    options = Options(given, _NAMES)
    client_settings.refuse_for_writes(options)
    address = broker_address(options)
    settings = dict(address.settings)
    delivery = options.text("delivery")
    if delivery is not None:
        delivery = options.choice("delivery", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE)
    application_id = options.text("applicationId")
    version = options.integer("applicationVersion", minimum=0)
    if is_streaming and version is not None:
        raise ConfigError("option 'applicationVersion' is for batch writes only: a stream counts its batches itself")
    if not is_streaming and (application_id is None) != (version is None):
        raise ConfigError("options 'applicationId' and 'applicationVersion' go together in a batch write")
    if application_id == "":
        raise ConfigError("option 'applicationId' is empty")
    if application_id is not None and STAGING_INFIX in application_id:
        raise ConfigError(f"option 'applicationId' must not contain {STAGING_INFIX!r}")
    staging_timeout_ms = options.integer("stagingTimeoutMs") or _STAGING_TIMEOUT_MS
    if staging_timeout_ms > _INT32_MAX:
        raise ConfigError(f"option 'stagingTimeoutMs' is at most {_INT32_MAX}, not {staging_timeout_ms}")
    acks = _ACKS[options.choice("acks", tuple(_ACKS), settings.get("acks", "all"))]
    if acks != ACKS_ALL and delivery == EXACTLY_ONCE:
        raise ConfigError("option 'acks' must be 'all' for exactly-once delivery")
    redrives = options.boolean(REDRIVE, default=False)
    if redrives and (delivery == AT_LEAST_ONCE or acks != ACKS_ALL):
        raise ConfigError(f"option {REDRIVE!r} puts each dead letter back exactly once: it excludes at-least-once")
    includes_directives = options.boolean(INCLUDE_DIRECTIVES, default=False)
    if redrives and includes_directives:
        raise ConfigError(f"options {REDRIVE!r} and {INCLUDE_DIRECTIVES!r} exclude each other")
    topic = options.text("topic")
    if topic == "":
        raise ConfigError("option 'topic' is empty")
    return WriteOptions(
        broker_address=address,
        topic=TopicName(topic) if topic else None,
        includes_headers=options.boolean("includeHeaders", default=True),
        includes_timestamp=options.boolean("includeTimestamp", default=False),
        includes_directives=includes_directives,
        redrives=redrives,
        # Without a way to publish, the journal could not agree with the records.
        delivery=EXACTLY_ONCE if redrives else delivery,
        application_id=application_id,
        application_version=version,
        staging_timeout_ms=staging_timeout_ms,
        codec=_CODECS[options.choice("compression.type", tuple(_CODECS), settings.get("compression.type", "none"))],
        acks=acks,
        schemas=_schemas(options, topic),
    )


def _schemas(options: Options, topic: str | None) -> dict[str, RegistryColumn]:
    found: dict[str, RegistryColumn] = {}
    for column in registry_options.COLUMNS:
        if options.choice(f"{column}.format", ("binary", "registry"), "binary") == "registry":
            found[column] = registry_options.registry_column(options, column, topic)
        else:
            registry_options.refuse_alone(options, column)
    return found
