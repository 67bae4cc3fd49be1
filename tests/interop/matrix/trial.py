"""One client of the matrix against a running broker."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop import toolchain
from tests.interop.matrix.declaration import HERE, Entry

OK = "ok"
# The broker that all are tried against: a group need not wait for further members.
BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
_PROGRAMS = "tests.interop.matrix.programs"
_ROOT = Path(__file__).parents[3]
_TIMEOUT_S = 240
# Spark 4's connector is that of the other tests. What Spark 3.5.7 was built with:
_SPARK_3 = {"scala.version": "2.12", "spark.version": "3.5.7", "kafka.version": "3.4.1", "pool.version": "2.11.1"}


@dataclass(frozen=True, slots=True)
class Result:
    entry: Entry
    # `ok`, `skipped: ` with the reason, or `failed: ` with the steps and their problems.
    outcome: str

    @property
    def is_skipped(self) -> bool:
        return self.outcome.startswith("skipped")

    @property
    def is_failure(self) -> bool:
        return self.outcome.startswith("failed")


class _Client(NamedTuple):
    command: Sequence[str]
    environment: Mapping[str, str]


def attempt(entry: Entry, bootstrap_servers: str, name: str) -> Result:
    """Try all steps of the client, with a topic of that name; what cannot be installed here is skipped."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            client = _client(entry, Path(directory))
        except pytest.skip.Exception as missing:
            return Result(entry, f"skipped: {missing.msg}")
        except (AssertionError, RuntimeError) as problem:
            # It does not compile; or, in CI, a registry gives nothing.
            return Result(entry, f"failed: {' '.join(str(problem).split())}")
        try:
            return Result(entry, _outcome(entry, client, [bootstrap_servers, name, *entry.steps]))
        except subprocess.TimeoutExpired:
            return Result(entry, f"failed: it did not end within {_TIMEOUT_S} s")


def _client(entry: Entry, directory: Path) -> _Client:
    """The client, installed and built: up to the bootstrap servers."""
    match entry.language:
        case "java":
            return _Client(toolchain.java_version_probe(directory, entry.version), {})
        case "python":
            return _Client([str(_python(entry)), "-m", f"{_PROGRAMS}.{entry.program}"], {})
        case "go":
            return _Client(toolchain.go_program(HERE / "go", f"./{entry.program}", directory / "probe"), {})
        case "rust":
            return _Client(toolchain.rust_program(HERE / "rust", entry.program), {})
        case "node":
            return _Client(toolchain.node_program(HERE / "node", entry.program), {})
        case "spark":
            return _spark(entry)


def _python(entry: Entry) -> Path:
    package = entry.client.partition(" ")[0]
    requirements = [f"{package}=={entry.version}", *entry.requirements]
    if not entry.is_compiled:
        return toolchain.python_environment(requirements)
    flags = toolchain.librdkafka_flags(entry.version)
    return toolchain.python_environment(requirements, wheels_only=False, environment=flags)


def _spark(entry: Entry) -> _Client:
    if entry.version == _SPARK_3["spark.version"]:
        python = str(toolchain.python_environment([f"pyspark=={entry.version}"], wheels_only=False))
        archives = toolchain.spark_connector_of(_SPARK_3)
    else:
        python, archives = sys.executable, ",".join(toolchain.spark_connector())
    return _Client([python, "-m", f"{_PROGRAMS}.spark"], {"MATRIX_SPARK_JARS": archives, "PYSPARK_PYTHON": python})


def _outcome(entry: Entry, client: _Client, arguments: Sequence[str]) -> str:
    done = subprocess.run(
        [*client.command, *arguments],
        cwd=_ROOT,
        env={**os.environ, **client.environment},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    told = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    problems = [f"{step}: {told.get(step, 'not reached')}" for step in entry.steps if told.get(step) != OK]
    if not problems:
        return OK
    last = done.stderr.strip().splitlines()[-1:]
    return "failed: " + "; ".join([*problems, *(last if len(told) < len(entry.steps) else ())])
