"""FindCoordinator (key 10), v0-6: v1 adds transactions, v3 is flexible, v4 asks for many, v6 adds share groups."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    key: str = field(versions="0-3")
    key_type: int8 = field(versions="1+", default=0)
    coordinator_keys: list[str] = field(versions="4+")


class Coordinator(Struct):
    key: str
    node_id: int32
    host: str
    port: int32
    error_code: int16 = 0
    error_message: str | None = None


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int32 = field(versions="1+")
    error_code: int16 = field(versions="0-3")
    error_message: str | None = field(versions="1-3")
    node_id: int32 = field(versions="0-3")
    host: str = field(versions="0-3")
    port: int32 = field(versions="0-3")
    coordinators: list[Coordinator] = field(versions="4+")
