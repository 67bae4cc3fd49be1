"""How much work one run does: every case takes its sizes, times and rounds from here, so that a run is bounded."""

from dataclasses import dataclass, replace

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Scale:
    name: str
    rounds: int
    warm_up_seconds: float
    """How long a broker is put to use before a bulk load or requests are measured: Java compiles what is used often."""
    bulk_bytes: int
    """What one bulk case writes or reads, unless that is more than `bulk_records`."""
    bulk_records: int
    """Small records cost the client so much that it would be busy for minutes."""
    peer_records: int
    """The same where brokers of other protocols are measured, some of which take each record by itself."""
    queue_records: int
    """What the consumers of a queue acknowledge one by one: whole blocks of a publisher."""
    queue_consumers: tuple[int, ...]
    """How many share the queue."""
    queue_rates: tuple[int, ...]
    """Records per second where the latency of a queue is measured."""
    retained_bytes: int
    """What a broker holds where its memory and its disk are looked at."""
    recovered_bytes: int
    """What it holds when it is killed."""
    seconds: float
    """How long one rate of requests is measured."""
    latency_seconds: float
    record_sizes: tuple[int, ...]
    partitions: tuple[int, ...]
    """Of one topic that is written and read."""
    idle_partitions: tuple[int, ...]
    """What a broker has when it starts."""
    codecs: tuple[str, ...]
    acks: tuple[str, ...]
    rates: tuple[int, ...]
    """Records per second where latency is measured."""
    request_rates: tuple[int, ...]
    """One-record requests per second where their latency is measured."""
    connections: tuple[int, ...]
    """How many send one-record requests at a time."""
    flush_connections: tuple[int, ...]
    """The same where flush policies are compared."""
    fan_out: int
    """How many groups read the same topic."""
    group_members: tuple[int, ...]
    """The sizes of the groups that rebalance."""
    groups: int
    """How many there are where a broker loads them."""
    producers: tuple[int, ...]
    """How many write side by side where each waits for its own transactions."""
    java_records: int
    """What Kafka's Java tools write or read, unless that is more than `bulk_bytes`."""
    java_round_trips: int
    """Records that they send and read one after another."""


FULL = Scale(
    "full",
    rounds=5,
    warm_up_seconds=15.0,
    bulk_bytes=GIB,
    bulk_records=5_000_000,
    peer_records=1_000_000,
    queue_records=200_000,
    queue_consumers=(1, 4, 10),
    queue_rates=(1_000, 5_000),
    retained_bytes=GIB,
    recovered_bytes=10 * GIB,
    seconds=3.0,
    latency_seconds=8.0,
    record_sizes=(10, 100, KIB, 10 * KIB, MIB),
    partitions=(1, 12, 100, 1000),
    idle_partitions=(1, 100, 1000, 10_000),
    codecs=("none", "lz4", "zstd"),
    acks=("0", "1", "all"),
    rates=(1_000, 10_000, 50_000),
    request_rates=(1_000, 8_000, 16_000, 32_000, 40_000),
    connections=(1, 10, 64, 500, 5000),
    flush_connections=(64, 500),
    fan_out=10,
    group_members=(2, 10, 100, 500),
    groups=1000,
    producers=(1, 4, 10, 20),
    java_records=5_000_000,
    java_round_trips=50_000,
)
QUICK = replace(
    FULL,
    name="quick",
    warm_up_seconds=5.0,
    bulk_bytes=256 * MIB,
    bulk_records=500_000,
    peer_records=200_000,
    queue_records=50_000,
    queue_consumers=(1, 4),
    queue_rates=(1_000,),
    retained_bytes=512 * MIB,
    recovered_bytes=GIB,
    seconds=0.5,
    latency_seconds=2.0,
    record_sizes=(100, KIB),
    partitions=(1, 100),
    idle_partitions=(1, 100),
    rates=(1_000, 10_000),
    request_rates=(1_000, 4_000),
    connections=(1, 64, 500),
    flush_connections=(64,),
    group_members=(10, 100),
    producers=(1, 10),
    java_records=1_000_000,
    java_round_trips=5_000,
)
# Shows that every case still works; its figures mean nothing.
SMOKE = Scale(
    "smoke",
    rounds=1,
    warm_up_seconds=0.02,
    bulk_bytes=4 * MIB,
    bulk_records=2_000,
    peer_records=2_000,
    queue_records=2_000,
    queue_consumers=(1, 2),
    queue_rates=(1_000,),
    retained_bytes=4 * MIB,
    recovered_bytes=4 * MIB,
    seconds=0.05,
    latency_seconds=0.2,
    record_sizes=(10, MIB),
    partitions=(1, 12),
    idle_partitions=(1, 12),
    codecs=("none", "zstd"),
    acks=("0", "all"),
    rates=(1_000,),
    request_rates=(1_000,),
    connections=(1, 4),
    flush_connections=(4,),
    fan_out=2,
    group_members=(3,),
    groups=20,
    producers=(2,),
    java_records=2_000,
    java_round_trips=100,
)

SCALES = {scale.name: scale for scale in (FULL, QUICK, SMOKE)}
