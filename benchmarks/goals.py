"""Goals by case and figure.

Absolute goals are the figures of design section 7, which a small broker without features reached on another machine;
those of groups, transactions and Spark, which it lacked, are what was set out to be reached. Goals of ratios say how
this broker is to stand beside Apache Kafka in the same run; where there is one, it is the one that counts.
"""

from fnmatch import fnmatchcase

from benchmarks.figures import Goal


def _at_least(value: float) -> Goal:
    return Goal(value, is_ceiling=False)


def _at_most(value: float) -> Goal:
    return Goal(value, is_ceiling=True)


GOALS = {
    ("sizes", "1 KiB: produce"): _at_least(849),
    ("sizes", "1 KiB: produce, broker CPU"): _at_most(0.6),
    ("sizes", "100 B: produce, records"): _at_least(1_400_000),
    ("fetch-raw", "fetch"): _at_least(3300),
    ("fetch-raw", "fetch, broker CPU"): _at_most(0.30),
    ("requests-os", "acks=1, 64 connections"): _at_least(25_000),
    ("requests-ack", "acks=all, 64 connections"): _at_least(21_500),
    ("flush", "64 connections: ack to os"): _at_least(0.5),
    ("flush", "500 connections: ack to os"): _at_least(0.5),
    ("latency-librdkafka", "1000/s p50"): _at_most(0.43),
    ("latency-librdkafka", "1000/s p99"): _at_most(2.2),
    ("latency-raw", "1000/s p50"): _at_most(0.43),
    ("latency-raw", "1000/s p99"): _at_most(2.2),
    ("latency-beside-large-batches", "lz4, 2 MiB: p99"): _at_most(5),
    ("latency-beside-large-batches", "zstd, 4 MiB: p99"): _at_most(5),
    ("latency-beside-large-batches", "snappy, 2 MiB: p99"): _at_most(5),
    ("latency-beside-large-batches", "gzip, 4 MiB: p99"): _at_most(5),
    ("latency-beside-large-batches", "zstd, 90 MiB: p99"): _at_most(5),
    ("memory", "idle"): _at_most(30),
    ("memory", "500 idle connections"): _at_most(35),
    ("start", "first ack"): _at_most(141),
    ("rebalance-classic", "100 members: all join"): _at_most(1000),
    ("rebalance-consumer", "100 members: all join"): _at_most(1000),
    ("group-reload", "after a clean stop"): _at_most(2000),
    ("group-reload", "after kill -9"): _at_most(2000),
    ("tls-handshakes", "handshakes per core"): _at_least(1000),
    ("delays", "5000/s: p99 late"): _at_most(50),
    ("delays-pending", "pending: memory"): _at_most(200),
    ("delays-pending", "pending: start until loaded"): _at_most(5),
    ("access", "1 connection: broker CPU, on to off"): _at_most(1.03),
    ("access", "10 connections: broker CPU, on to off"): _at_most(1.03),
    ("access", "64 connections: broker CPU, on to off"): _at_most(1.03),
    ("fetch-committed", "transactions of 1,000 records: ratio"): _at_most(1.10),
    ("produce-transactions", "100 B, 10 producers: ratio"): _at_least(0.90),
    ("produce-transactions", "1024 B, 10 producers: ratio"): _at_least(0.90),
    ("produce-transactions", "100 B, 20 producers: ratio"): _at_least(0.90),
    ("produce-transactions", "1024 B, 20 producers: ratio"): _at_least(0.90),
    ("spark-read", "batch, 100 B: rows, ratio"): _at_least(1.0),
    ("spark-read", "batch, 1024 B: rows, ratio"): _at_least(1.0),
    ("spark-read", "streaming, 100 B: rows, ratio"): _at_least(0.8),
    ("spark-read", "streaming, 1024 B: rows, ratio"): _at_least(0.8),
    ("spark-read", "batch, 100 B: CPU, ratio to ready-made Arrow"): _at_most(1.3),
    ("spark-read", "batch, 1024 B: CPU, ratio to ready-made Arrow"): _at_most(1.3),
}

_BULK = (
    *("sizes", "partitions", "codecs", "acks", "produce-raw", "fetch-raw", "fan-out", "catch-up", "cold-read"),
    *("java-produce", "java-consume"),
)
# The first pattern that matches a figure decides; None is for figures without a goal.
RATIO_GOALS: tuple[tuple[tuple[str, ...], str, Goal | None], ...] = (
    # Encryption costs both brokers the same.
    (("tls-bulk",), "*: produce, broker CPU", _at_most(0.7)),
    (("tls-bulk",), "*: consume, broker CPU", _at_most(0.7)),
    (("tls-bulk",), "*: produce", _at_least(1.0)),
    (("tls-bulk",), "*: consume", _at_least(1.0)),
    (("tls-requests",), "*connection", _at_least(1.0)),
    (("tls-requests",), "*connections", _at_least(1.0)),
    (_BULK, "*client CPU", None),
    (_BULK, "*broker CPU in user space", None),
    (_BULK, "*, records", None),
    (_BULK, "*broker CPU", _at_most(0.6)),
    (_BULK, "*", _at_least(1.0)),
    (("latency-*",), "* p99", _at_most(1.0)),
    (("requests-at-rate",), "* p99", _at_most(1.0)),
    # As many requests per CPU second as Kafka are as few CPU seconds per request.
    (("requests-os",), "*: broker CPU", _at_most(1.0)),
    (("start", "start-partitions"), "*first ack", _at_most(0.15)),
    (("queues",), "*: broker CPU", _at_most(0.7)),
    (("queues",), "* p99", _at_most(1.0)),
    (("queues",), "*consumer*", _at_least(1.0)),
    (("memory",), "idle", _at_most(0.15)),
    (("memory",), "peak", _at_most(0.3)),
)


def ratio_goal(case: str, figure: str) -> Goal | None:
    for cases, pattern, goal in RATIO_GOALS:
        if any(fnmatchcase(case, each) for each in cases) and fnmatchcase(figure, pattern):
            return goal
    return None
