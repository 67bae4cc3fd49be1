"""DescribeMetrics (key 10001), v0: an API of Headwater's own, for what the broker measures of itself."""

from headwater.protocol.wire.codec import Request, Response, Struct, float64, int16, int32


class MetricLabel(Struct):
    name: str
    value: str


class MetricSample(Struct):
    # What a histogram adds to its name: `_bucket`, `_sum` or `_count`.
    suffix: str
    labels: list[MetricLabel]
    value: float64


class MetricFamily(Struct):
    name: str
    # counter, gauge or histogram
    kind: str
    help: str
    samples: list[MetricSample]


class DescribeMetricsRequest(Request, key=10_001, versions="0", flexible="0+"):
    # Families whose names begin with it; empty for all.
    name_prefix: str = ""


class DescribeMetricsResponse(Response, key=10_001, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    families: list[MetricFamily]
