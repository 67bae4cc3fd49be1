"""Java clients of versions that are still in use: Spark 3.5, Flink and much else ship them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import toolchain
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop

TIMEOUT_S = 180
STEPS = ("create", "produce", "consume", "group", "transaction", "delete")


# 3.3 to 3.7 are strict about the features that a broker names (KAFKA-17011).
@pytest.mark.parametrize("version", ["3.4.1", "3.7.2", "4.4.0"])
def test_a_java_client_does_what_most_programs_do(
    broker: BrokerProcess, new_topic: Callable[[str], str], tmp_path: Path, version: str
) -> None:
    probe = toolchain.java_version_probe(tmp_path, version)
    command = [*probe, broker.bootstrap_servers, new_topic("version")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    outcomes = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert outcomes == dict.fromkeys(STEPS, "ok"), done.stderr
