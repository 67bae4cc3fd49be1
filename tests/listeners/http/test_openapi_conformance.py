"""schemathesis tries what the description of /v1 allows, and what it does not: no faults, no undescribed answers."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.testing import Broker

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# An event stream has no end, and a WebSocket no answer.
UNENDING = "/stream$|/v1/ws$"


@pytest.mark.slow
def test_every_answer_is_described(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    # Waits would take all of the time, and thousands of partitions all of the descriptors.
    settings = {"headwater.http.wait.ms.max": "0", "headwater.create.partitions.max": "20"}
    with Broker(settings, http=True) as broker:
        options = ["--max-examples", "15", "--checks", CHECKS, "--phases", "coverage,fuzzing", "--continue-on-failure"]
        options += ["--exclude-path-regex", UNENDING, "--seed", "1", "--generation-database", "none"]
        command = [program, "run", f"{broker.http_url}/v1/openapi.json", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
