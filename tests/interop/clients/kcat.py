"""kcat, one process per errand. It writes and reads records; topics it only lists, or creates by writing to them."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.interop.exchange import BEGINNING, Acks, At, Compression, FromTime, Position, Record, Replicas, Start

# Neither occurs in a record of these tests.
_KEY_DELIMITER = b"\x1e\x1f\x1e"
_RECORD_DELIMITER = b"\x1d\x1c\x1d"

_TIMEOUT_S = 60
_RECORD_BYTES_MAX = 16 << 20
_SPECIAL = {"earliest": -2, "latest": -1}


def can_write(record: Record) -> bool:
    """kcat sets no time, takes headers from its arguments, and writes either what is empty or what is null."""
    if any(b"\0" in (value or b"") for _, value in record.headers):
        return False
    if record.value is None:
        return record.key != b""
    return record.value != b"" or record.key is not None


class Kcat:
    def __init__(
        self,
        path: str,
        bootstrap_servers: str,
        settings: Mapping[str, str] = {},
        environment: Mapping[str, str] = {},
    ) -> None:
        """`settings` are librdkafka's."""
        self._command = [path, "-q", "-b", bootstrap_servers]
        self._environment = {**os.environ, **environment}
        for name, value in settings.items():
            self._command += ["-X", f"{name}={value}"]

    def _run(self, *arguments: str | bytes, stdin: bytes = b"") -> bytes:
        command = [*self._command, *arguments]
        done = subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: Compression = "none",
        acks: Acks = "all",
    ) -> None:
        options = ["-P", "-t", topic, "-p", str(partition), "-z", compression, "-X", f"acks={acks}"]
        options += ["-X", f"message.max.bytes={_RECORD_BYTES_MAX}"]
        options += ["-D", _escaped(_RECORD_DELIMITER), "-K", _escaped(_KEY_DELIMITER)]
        for record in records:
            assert can_write(record)
            content = record.value or b""
            if record.key is not None:
                content = record.key + _KEY_DELIMITER + content
            headers: list[str | bytes] = []
            for name, value in record.headers:
                headers += ["-H", name if value is None else name.encode() + b"=" + value]
            null = ["-Z"] if record.value is None else []
            # With -Z an empty key is null, too, but without a delimiter there is no record at all.
            self._run(*options, *null, *headers, stdin=content or _KEY_DELIMITER)

    def consume(self, topic: str, count: int, start: Start = BEGINNING, *, partition: int = 0) -> dict[int, Record]:
        place = f"s@{start.timestamp_ms}" if isinstance(start, FromTime) else str(start.offset)
        output = self._run("-C", "-t", topic, "-p", str(partition), "-o", place, "-c", str(count), "-J")
        # kcat copies bytes into its JSON as they are. Latin-1 maps each byte to one character and back.
        read = [json.loads(line.decode("latin-1")) for line in output.split(b"\n") if line]
        return {each["offset"]: _record(each) for each in read}

    def offset(self, topic: str, at: At, *, partition: int = 0) -> Position:
        place = _SPECIAL.get(at) if isinstance(at, str) else at
        assert place is not None, f"kcat does not ask for {at}"
        output = self._run("-Q", "-t", f"{topic}:{partition}:{place}")
        return Position(int(output.split()[-1]), None)

    def topics(self) -> dict[str, tuple[Replicas, ...]]:
        listed = json.loads(self._run("-L", "-J"))
        return {topic["topic"]: tuple(_replicas(each) for each in topic["partitions"]) for topic in listed["topics"]}


def _escaped(delimiter: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in delimiter)


def _record(read: dict[str, Any]) -> Record:
    flat = read.get("headers", [])
    names, values = flat[::2], flat[1::2]
    return Record(
        key=_cell(read["key"]),
        value=_cell(read["payload"]),
        headers=tuple(
            (name.encode("latin-1").decode(), _cell(value)) for name, value in zip(names, values, strict=True)
        ),
        timestamp_ms=read["ts"],
    )


def _cell(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def _replicas(partition: dict[str, Any]) -> Replicas:
    replicas = tuple(each["id"] for each in partition["replicas"])
    return Replicas(partition["leader"], replicas, tuple(each["id"] for each in partition["isrs"]))
