"""Output of Kafka's performance tools is parsed, and tools that fail or are missing are reported."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from benchmarks.cases.java_tools import JAVA_CONSUME, JAVA_LATENCY, JAVA_PRODUCE
from benchmarks.cases.memory import MEMORY
from benchmarks.loads import java_tools
from benchmarks.loads.java_tools import Rate, RoundTrips, UnknownOutput
from benchmarks.suite import available

# As the tools of Kafka 4.3.1 printed it.
PRODUCED = """\
Warmup first 5000 records. Steady state results will print after the complete test summary.
2128 records sent, 10133.3 records/sec (0.97 MB/sec), 222.8 ms avg latency, 414.0 ms max latency.
In steady state.
8233 records sent, 40556.7 records/sec (3.87 MB/sec), 92.2 ms avg latency, 185.0 ms max latency.
20000 records sent, 9332.711153 records/sec (0.89 MB/sec), 117.01 ms avg latency, 1319.00 ms max latency, \
105 ms 50th, 262 ms 95th, 351 ms 99th, 407 ms 99.9th.
15000 steady state records sent, 24232.633279 records/sec (2.31 MB/sec), 93.62 ms avg latency, \
185.00 ms max latency, 87 ms 50th, 146 ms 95th, 160 ms 99th, 185 ms 99.9th.

Metric Name                                                         Value
producer-metrics:batch-size-avg:{client-id=perf-producer-client}  : 15403.267
"""
COLUMNS = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
"""
CONSUMED = f"""\
{COLUMNS}\
2026-11-15 18:20:57:742, 2026-11-15 18:21:03:197, 1.9073, 0.3497, 20000, 3666.3611, 4748, 707, 2.6978, 28288.5431
"""
GAVE_UP = (
    "WARNING: Exiting before consuming the expected number of records: timeout (3000 ms) exceeded. You can use the "
    "--timeout option to increase the timeout.\n"
)
ROUND_TRIPS = """\
0\t104.580095
1000\t1.315226
Avg latency: 5.5485 ms
Percentiles: 50th = 2, 99th = 37, 99.9th = 117
"""

TO = {"archives": "a.jar", "address": "127.0.0.1:9092", "topic": "topic"}
PRODUCE = partial(java_tools.produce, records=15_000, warm_up_records=5_000, record_bytes=100, acks="all", **TO)
CONSUME = partial(java_tools.consume, records=20_000, **TO)
LATENCY = partial(java_tools.produce_and_consume, records=2_000, record_bytes=100, acks="all", **TO)

Java = Callable[..., Path]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A fake `java` on the PATH: prints the given output and records its arguments."""

    def install(output: str, code: int = 0) -> Path:
        called = tmp_path / "called"
        program = tmp_path / "java"
        program.write_text(
            f"#!{sys.executable}\n"
            "import os, sys\n"
            f"open({str(called)!r}, 'w').write(' '.join([os.environ['LC_ALL'], *sys.argv[1:]]))\n"
            f"sys.stdout.write({output!r})\n"
            f"sys.exit({code})\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return called

    return install


def test_the_rate_of_a_producer_excludes_its_warm_up() -> None:
    assert java_tools.parse_produced(PRODUCED) == Rate(15_000, 24_232.633279)


def test_the_rate_of_a_consumer_excludes_its_rebalance() -> None:
    assert java_tools.parse_consumed(CONSUMED) == Rate(20_000, 28_288.5431)


def test_a_result_is_parsed_although_the_consumer_warns_before_it() -> None:
    assert java_tools.parse_consumed(CONSUMED.replace(COLUMNS, COLUMNS + GAVE_UP)) == Rate(20_000, 28_288.5431)


def test_percentiles_are_taken_from_the_output_of_the_tool() -> None:
    assert java_tools.parse_round_trips(ROUND_TRIPS) == RoundTrips(5.5485, 2, 37, 117)


@pytest.mark.parametrize("parse", [java_tools.parse_produced, java_tools.parse_consumed, java_tools.parse_round_trips])
@pytest.mark.parametrize(
    "output",
    [
        "",
        "Error: Could not find or load main class org.apache.kafka.tools.ProducerPerformance\n",
        COLUMNS + GAVE_UP,
        CONSUMED.replace("fetch.nMsg.sec", "fetch.records.sec"),
        CONSUMED.replace("28288.5431", "n/a"),
        PRODUCED.replace("steady state records", "records"),
        PRODUCED.replace("24232.633279", "24232,633279"),
        ROUND_TRIPS.replace("99th = 37, ", ""),
        ROUND_TRIPS.replace("Avg", "Mean"),
    ],
)
def test_output_in_an_unknown_format_is_refused_and_quoted(parse: Callable[[str], object], output: str) -> None:
    with pytest.raises(UnknownOutput) as found:
        parse(output)

    assert output in str(found.value)


def test_a_producer_is_run_with_its_default_settings_and_measured_after_java_has_started(java: Java) -> None:
    called = java(PRODUCED)
    ready: list[str] = []

    told = PRODUCE(lambda: ready.append("ready"))

    assert ready == ["ready"]
    assert told.result == Rate(15_000, 24_232.633279)
    assert told.seconds > 0
    assert called.read_text().endswith(
        "-cp a.jar org.apache.kafka.tools.ProducerPerformance --bootstrap-server 127.0.0.1:9092 --topic topic "
        "--num-records 20000 --warmup-records 5000 --record-size 100 --throughput -1 --command-property acks=all "
        "--print-metrics"
    )


def test_java_prints_numbers_in_the_locale_of_the_parser(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    called = java(CONSUMED)

    CONSUME(lambda: None)

    assert called.read_text().startswith("C ")


def test_round_trips_are_reported(java: Java) -> None:
    java(ROUND_TRIPS)

    assert LATENCY(lambda: None).result == RoundTrips(5.5485, 2, 37, 117)


def test_a_tool_that_never_begins_is_an_error_that_quotes_its_output(java: Java) -> None:
    java("no broker is there\n", code=1)
    ready: list[str] = []

    with pytest.raises(UnknownOutput, match="no broker is there"):
        LATENCY(lambda: ready.append("ready"))

    assert not ready


def test_a_tool_that_ends_without_a_result_is_an_error_that_quotes_its_output(java: Java) -> None:
    java("0\t104.580095\nthe broker is gone\n", code=1)

    with pytest.raises(UnknownOutput, match="the broker is gone"):
        LATENCY(lambda: None)


def test_a_tool_that_fails_after_its_result_is_an_error(java: Java) -> None:
    java(f"{PRODUCED}could not close\n", code=3)

    with pytest.raises(RuntimeError, match=r"code 3 and said:[^$]*could not close"):
        PRODUCE(lambda: None)


def test_a_consumer_that_read_too_few_records_is_an_error(java: Java) -> None:
    java(CONSUMED.replace(" 20000,", " 19999,"))

    with pytest.raises(RuntimeError, match="19999 of 20000 records"):
        CONSUME(lambda: None)


def test_a_tool_that_takes_too_long_is_killed(java: Java, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java("")
    (tmp_path / "java").write_text("#!/bin/sh\nprintf '0\\t1.0\\n'\nexec sleep 1000\n")
    monkeypatch.setattr(java_tools, "TIMEOUT_S", 0.2)

    with pytest.raises(UnknownOutput):
        LATENCY(lambda: None)


def test_without_java_cases_of_the_tools_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    kept, left_out = available([JAVA_PRODUCE, MEMORY, JAVA_CONSUME, JAVA_LATENCY])

    assert kept == [MEMORY]
    assert left_out.keys() == {"java-produce", "java-consume", "java-latency"}
    assert "java is not on the PATH" in left_out["java-latency"]


def test_without_archives_the_reason_of_maven_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java_tools, "WORK", tmp_path / "kept")

    assert "mvn is not on the PATH" in java_tools.missing()
