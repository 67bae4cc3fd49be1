"""Records of the internal topics, as Kafka's own tool prints them and as its own classes write them again."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.interop import toolchain
from tests.interop.dump_log import Dump

_TIMEOUT_S = 120

# The type and the fields of the key, and unless it is a tombstone, the version and the fields of the value.
Printed = tuple[tuple[str, Mapping[str, Any]], tuple[str, Mapping[str, Any]] | None]


def printed(dump: Dump) -> list[Printed]:
    """With the decoder of the topic."""
    records: list[Printed] = []
    for record in dump.records:
        key = json.loads(record["key"])
        value = None if record["payload"] == "<DELETE>" else json.loads(record["payload"])
        records.append(((key["type"], key["data"]), (value["version"], value["data"]) if value else None))
    return records


def rewritten(topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> list[tuple[bytes, Sequence[bytes]]]:
    """Each key, with its value in every version that can hold what it says; a tombstone has none."""
    lines = [key.hex() if value is None else f"{key.hex()} {value.hex()}" for key, value in records]
    command, given = toolchain.rewrite(topic), "\n".join(lines)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[tuple[bytes, Sequence[bytes]]] = []
    for answer in done.stdout.splitlines():
        key, *values = (bytes.fromhex(cell) for cell in answer.split())
        answers.append((key, values))
    return answers
