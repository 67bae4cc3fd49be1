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


def test_a_broker_without_http_loads_none_of_it(tmp_path: Path) -> None:
    program = (
        "import sys; from headwater.testing import Broker\n"
        "with Broker() as broker: print(*broker.node.addresses, *sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    names = run.stdout.split()
    assert names[0] == "kafka"
    assert [name for name in names if name.split(".")[0] in {"httptools", "msgspec", "websockets"}] == []
    ours = "headwater.listeners.http."
    assert [name for name in names if name.startswith(ours)] == [f"{ours}activation"]


def test_a_broker_without_tls_does_not_load_openssl(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        mapped = Path(f"/proc/{broker.pid}/maps").read_text()
    assert "libcrypto" not in mapped
    assert "libssl" not in mapped
