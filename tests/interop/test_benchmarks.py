"""The benchmarks run on Apache Kafka's own server as they do on ours, and say how the two compare."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import toolchain

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300
CASES = ("--case", "acks", "--case", "tls-bulk")


def test_a_case_of_both_systems_has_ratios(tmp_path: Path) -> None:
    # Skips where there is no Java or no Maven.
    toolchain.kafka_server()
    systems = ("--system", "headwater", "--system", "kafka")
    command = [sys.executable, "-m", "benchmarks", "--smoke", *CASES, *systems, "--publish", str(tmp_path)]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert finished.returncode == 0, finished.stderr
    result = json.loads((tmp_path / "smoke.json").read_text())
    ratios = {each["name"]: each for case in result["cases"] for each in case["ratios"]}
    assert ratios["acks=all: produce"]["headwater to"]["kafka"]["median"] > 0
    assert ratios["1 KiB: consume"]["headwater to"]["kafka"]["median"] > 0, "over TLS"
    assert "-Xmx1G" in result["systems"]["kafka"]["command"]
    assert (tmp_path / "plots" / "smoke-acks.png").exists()
    assert "ratio to kafka" in (tmp_path / "smoke.md").read_text()
