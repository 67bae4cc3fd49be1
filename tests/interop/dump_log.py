"""Kafka's own kafka-dump-log, and what it says about the files of a partition."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 120
_FIELD = re.compile(r"(\w+): (\S+)")
_HOLE = re.compile(r"  (-?\d+) is followed by (\d+)")
# Compaction leaves the last batch of a round even when it is empty, with the latest time of the records that it had.
# Kafka's own cleaner and index do the same, but the tool looks for the time in the records.
_EMPTY_BATCH = re.compile(r"  Index timestamp: \d+, log timestamp: -1")
_HEADINGS = ("Non-consecutive offsets in ", "Found timestamp mismatch in ")

# The largest batch that the tool reads behind an index entry; its own default is smaller than what these tests write.
_BATCH_BYTES_MAX = 32 << 20


@dataclass(frozen=True, slots=True)
class Dump:
    batches: Sequence[dict[str, str]]
    records: Sequence[dict[str, str]]
    # Lines about files, and those of indexes and snapshots.
    others: Sequence[str]
    # Offsets of one segment between which others are missing.
    holes: Sequence[tuple[int, int]]
    # Whatever else the tool finds wrong: it only says so and exits with 0.
    complaints: Sequence[str]


class DumpLog:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def __call__(self, files: Iterable[Path], *options: str) -> Dump:
        names = ",".join(str(file) for file in files)
        assert names, "there is nothing to dump"
        command = [*self._command, *options, "--max-message-size", str(_BATCH_BYTES_MAX), "--files", names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        lines, remarks = done.stdout.splitlines(), done.stderr.splitlines()
        complaints = [line for line in lines if line.startswith("Found ")]
        holes: list[tuple[int, int]] = []
        for remark in remarks:
            if hole := _HOLE.fullmatch(remark):
                holes.append((int(hole[1]), int(hole[2])))
            elif not remark.startswith(_HEADINGS) and not _EMPTY_BATCH.fullmatch(remark):
                complaints.append(remark)
        return Dump(
            batches=[fields(line) for line in lines if line.startswith("baseOffset: ")],
            records=[fields(line) for line in lines if line.startswith("| ")],
            others=[line for line in lines if not line.startswith(("baseOffset: ", "| "))],
            # The tool remarks of every segment but the first that its first record follows upon -1.
            holes=[hole for hole in holes if hole[0] != -1],
            complaints=complaints,
        )


def fields(line: str) -> dict[str, str]:
    return dict(_FIELD.findall(line))
