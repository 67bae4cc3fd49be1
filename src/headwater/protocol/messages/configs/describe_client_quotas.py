"""DescribeClientQuotas (key 48), v0-1: v1 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, float64, int8, int16, int32


class ComponentData(Struct):
    entity_type: str
    match_type: int8
    match: str | None


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData]
    strict: bool


class EntityData(Struct):
    entity_type: str
    entity_name: str | None


class ValueData(Struct):
    key: str
    value: float64


class EntryData(Struct):
    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    entries: list[EntryData] | None
