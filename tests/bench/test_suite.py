"""Which cases and systems run, in which order, and how a failure is handled."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import systems
from benchmarks.broker_process import BrokerProcess
from benchmarks.figures import Case, Figure
from benchmarks.scale import FULL, QUICK, SMOKE, Scale
from benchmarks.suite import CASES, QUICK_CASES, measure, select
from benchmarks.systems import KAFKA, KAFKA_PROTOCOL, Flush, System, selected


class Paper:
    """A system on paper: the cases of these tests never start it."""

    about = "of paper"
    protocol = KAFKA_PROTOCOL

    def __init__(self, name: str) -> None:
        self.name = name

    def missing(self) -> str:
        return ""

    def describe(self) -> Mapping[str, str]:
        return {}

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        raise AssertionError("nothing is to be started")

    def topic_settings(self, flush: Flush) -> Mapping[str, str]:
        return {}

    def broker_settings(self, flush: Flush) -> Mapping[str, str]:
        return {}


PAPERS = [Paper("headwater"), Paper("kafka")]


def one(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    yield Figure("one", "ms", 1)


def test_rounds_are_interleaved_and_a_headwater_case_runs_on_headwater_alone() -> None:
    both, ours = Case("both", "", one), Case("ours", "", one, why_headwater_only="it is")
    said: list[str] = []

    series, failures = measure([both, ours], PAPERS, _rounds(2), said.append)

    turns = [" ".join(line.split()[2:]) for line in said]
    assert turns == ["both headwater", "both kafka", "ours headwater"] * 2
    assert [(each.case, each.system, len(each.figures)) for each in series] == [
        ("both", "headwater", 2),
        ("both", "kafka", 2),
        ("ours", "headwater", 2),
    ]
    assert not failures


def test_a_case_that_fails_is_reported_and_the_others_go_on() -> None:
    def half(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
        yield Figure("first", "ms", 1)
        if system.name == "kafka":
            raise TimeoutError("no answer\nto 3 requests")

    series, [failure] = measure([Case("half", "", half), Case("one", "", one)], PAPERS, _rounds(2), lambda line: None)

    assert (failure.case, failure.system, failure.round) == ("half", "kafka", 1)
    assert failure.reason == "TimeoutError: to 3 requests"
    counted = {(each.case, each.system): len(each.figures) for each in series}
    # Figures of half a case would be compared with those of another round.
    assert counted == {("half", "headwater"): 2, ("one", "headwater"): 2, ("one", "kafka"): 2}


def test_cases_are_chosen_by_name_or_pattern_in_the_order_of_the_suite() -> None:
    assert [case.name for case in select(["start", "latency-l*"], FULL)] == ["latency-librdkafka", "start"]
    assert select([], FULL) == list(CASES)
    assert select([], QUICK) == list(QUICK_CASES)
    with pytest.raises(LookupError, match=r"--case nonsense\*: the cases are sizes, "):
        select(["start", "nonsense*"], FULL)


def test_no_two_cases_have_the_same_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_an_unavailable_system_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    available, left_out = selected([])

    assert [system.name for system in available] == ["headwater"]
    rabbitmq = {"rabbitmq", "rabbitmq-classic", "rabbitmq-quorum"}
    assert left_out.keys() == {"baseline", "kafka", "kafka-tuned", "nats", "redis", *rabbitmq}
    assert "java is not on the PATH" in left_out["kafka"]
    assert "BENCH_BASELINE" in left_out["baseline"]


def java(directory: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake `java` on the PATH; like the real one it prints its version to stderr."""
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho Picked up: -Dx >&2\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


def test_a_java_that_is_too_old_is_reported_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, "11.0.2", monkeypatch)

    assert KAFKA.missing() == 'openjdk version "11.0.2" is too old: 17 or later is needed'


def test_a_system_that_needs_more_memory_than_there_is_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "21", monkeypatch)
    monkeypatch.setattr(systems, "memory_bytes", lambda: 8 * 1024**3)

    assert systems.KAFKA_TUNED.missing() == "it needs a machine with 12 GiB of memory"


def test_only_systems_that_were_asked_for_are_chosen() -> None:
    available, left_out = selected(["headwater"])

    assert [system.name for system in available] == ["headwater"]
    assert not left_out
    with pytest.raises(LookupError, match="--system nonsense: the systems are headwater, baseline, kafka, kafka-tuned"):
        selected(["headwater", "nonsense"])


def test_flushing_before_the_acknowledgement_is_set_up_for_kafka_too() -> None:
    assert KAFKA.topic_settings(Flush.ACK) == {"flush.messages": "1"}
    assert KAFKA.topic_settings(Flush.OS) == {}, "its default"
    assert KAFKA.broker_settings(Flush.OS) == {}
    assert KAFKA.broker_settings(Flush.INTERVAL).keys() == {"log.flush.interval.ms"}
    assert KAFKA.broker_settings(Flush.ACK) == {"log.flush.interval.messages": "1"}


def _rounds(count: int) -> Scale:
    return replace(SMOKE, rounds=count)
