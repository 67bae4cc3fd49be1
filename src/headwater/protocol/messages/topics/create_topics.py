"""CreateTopics (key 19), v2-7: v5 is flexible and answers with the settings in effect, v7 with the topic id."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class CreatableReplicaAssignment(Struct):
    partition_index: int32
    broker_ids: list[int32]


class CreatableTopicConfig(Struct):
    name: str
    value: str | None


class CreatableTopic(Struct):
    name: str
    num_partitions: int32
    replication_factor: int16
    assignments: list[CreatableReplicaAssignment] = field()
    configs: list[CreatableTopicConfig] = field()


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic]
    timeout_ms: int32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(Struct):
    name: str
    value: str | None
    read_only: bool
    config_source: int8 = -1
    is_sensitive: bool


class CreatableTopicResult(Struct):
    name: str
    topic_id: UUID = field(versions="7+")
    error_code: int16 = 0
    error_message: str | None
    topic_config_error_code: int16 = field(versions="5+", tag=0)
    num_partitions: int32 = field(versions="5+", default=-1)
    replication_factor: int16 = field(versions="5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field(versions="5+", default=[])


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int32 = 0
    topics: list[CreatableTopicResult]
