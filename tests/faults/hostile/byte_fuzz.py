"""Byte-level fuzzing, guided by coverage: `python -m tests.faults.hostile.byte_fuzz [SEED [SECONDS]]`.

Needs atheris (`pip install atheris`), which brings libFuzzer and is not a development dependency. No module of this
project is imported before atheris can instrument it.
"""

import importlib
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

INPUT_BYTES_MAX = 4096


def fuzz_bytes(seed: int, deadline: float) -> int:
    """Fuzz in a process of its own until the deadline (of `time.monotonic`); returns the number of inputs tried."""
    seconds = max(int(deadline - time.monotonic()), 1)
    command = [sys.executable, "-m", __spec__.name, str(seed), str(seconds)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    done = re.search(r"Done (\d+) runs", finished.stderr)
    assert finished.returncode == 0, finished.stderr[-4000:]
    assert done is not None, finished.stderr[-4000:]
    return int(done[1])


def main(seed: int = 1, seconds: int = 60) -> None:
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        sys.exit("byte-level fuzzing needs atheris: pip install atheris")
    with atheris.instrument_imports(include=["headwater.protocol"]):
        from tests.faults.hostile import byte_targets
    byte_targets.instrument_readers(atheris.instrument_func)
    with tempfile.TemporaryDirectory() as corpus:
        byte_targets.write_corpus(Path(corpus), seed)
        options = [f"-seed={seed}", f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", "-rss_limit_mb=1024"]
        atheris.Setup([sys.argv[0], *options, corpus], byte_targets.feed)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
