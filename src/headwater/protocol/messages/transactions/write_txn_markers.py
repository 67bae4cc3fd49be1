"""WriteTxnMarkers (key 27), v1-2: v1 is flexible, v2 tells the version of the transaction."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class WritableTxnMarkerTopic(Struct):
    name: str
    partition_indexes: list[int32]


class WritableTxnMarker(Struct):
    producer_id: int64
    producer_epoch: int16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32
    transaction_version: int8 = field(versions="2+", default=0)


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult]
