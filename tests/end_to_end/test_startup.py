"""Modules that a broker does not load until it needs them: each would cost every start milliseconds and memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker.processes import BrokerProcess

LATER = ["backports.zstd", "cramjam", "lz4", "headwater.storage.cleaning.compaction", "hashlib", "tomllib"]
CHECK = "import sys, headwater.node, headwater.config.loader, headwater.logs; print(*sys.modules)"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    run = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", LATER)
def test_a_start_does_not_load(module: str, loaded: set[str]) -> None:
    assert "headwater.node" in loaded
    assert module not in loaded


def test_a_broker_without_tls_does_not_load_openssl(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        mapped = Path(f"/proc/{broker.pid}/maps").read_text()
    assert "libcrypto" not in mapped
    assert "libssl" not in mapped
