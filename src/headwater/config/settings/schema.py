"""The broker's settings of the schema registry: whether there is one, and what a schema may cost."""

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, LONG, setting


@broker_settings_class
class SchemaSettings(BrokerSettings):
    headwater_schemas_enable: bool = setting(
        BOOLEAN,
        "headwater.schemas.enable",
        False,
        "Whether the broker is a schema registry. It then owns the topic _schemas, which no client may write to.",
    )
    headwater_schemas_max: int = setting(
        INT,
        "headwater.schemas.max",
        100_000,
        "How many versions of schemas the registry holds, over all subjects.",
        minimum=1,
        dynamic=True,
    )
    headwater_schemas_total_bytes_max: int = setting(
        LONG,
        "headwater.schemas.total.bytes.max",
        256 << 20,
        "How many bytes all schemas together may have.",
        minimum=1,
        dynamic=True,
    )
    headwater_schemas_bytes_max: int = setting(
        INT,
        "headwater.schemas.bytes.max",
        1 << 20,
        "How many bytes one schema may have.",
        minimum=1,
        maximum=16 << 20,
        dynamic=True,
    )
    headwater_schemas_depth_max: int = setting(
        INT,
        "headwater.schemas.depth.max",
        64,
        "How deeply the types of a schema may be nested.",
        minimum=1,
        maximum=100,
        dynamic=True,
    )
    headwater_schemas_types_max: int = setting(
        INT,
        "headwater.schemas.types.max",
        20_000,
        "How many types a schema may have, together with all schemas that it refers to.",
        minimum=1,
        dynamic=True,
    )
    headwater_schemas_comparisons_max: int = setting(
        INT,
        "headwater.schemas.comparisons.max",
        200_000,
        "How many pairs of types one check of compatibility may compare.",
        minimum=1,
        dynamic=True,
    )
    headwater_schemas_payload_bytes_max: int = setting(
        INT,
        "headwater.schemas.payload.bytes.max",
        1 << 20,
        "How many bytes a key or a value may have where records are checked against their schemas as a whole "
        "(headwater.value.schema.validation=full).",
        minimum=1,
        maximum=16 << 20,
        dynamic=True,
    )
