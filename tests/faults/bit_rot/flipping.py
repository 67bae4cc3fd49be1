"""Bit rot in the files of a stopped broker: how the broker handles each damage, and what clients then read.

Law: no client gets a record that was not written, none is passed over in silence, and what is damaged is told.
"""

import logging
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.storage import checkpoints
from headwater.storage.disk import Disk
from headwater.storage.inspection.damage import verify_directory, verify_partition
from tests.support.broker.embedded_broker import batch_of, crash, create, produce, running, settled, start
from tests.support.broker.fetches import fetch, outcome
from tests.support.broker.transactions import end, initialized, stage

SETTINGS: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
TOPICS: Final = ("plain", "transacted", "compacted")
CUTS_IN: Final = 6

# The content of each partition by offset: a value, or None for a transaction marker.
Content = dict[str, dict[int, bytes | None]]


@dataclass(slots=True)
class Rot:
    """One damage: a flipped bit, or a file that lost its end."""

    path: Path
    position: int
    bit: int | None
    is_clean: bool

    def __str__(self) -> str:
        what = "cut" if self.bit is None else f"bit {self.bit}"
        return f"{self.path} {what} at {self.position}, {'clean' if self.is_clean else 'unclean'} start"


@dataclass(slots=True)
class Outcome:
    refusal: str | None = None
    # By topic, the error that stopped a reader before the end.
    errors: dict[str, ErrorCode] = field(default_factory=dict[str, ErrorCode])
    reports: list[str] = field(default_factory=list[str])
    violations: list[str] = field(default_factory=list[str])


async def fill(directory: Path) -> Content:
    """Run a broker for a while and stop it cleanly; returns the content of its topics."""
    async with running(directory, SETTINGS) as broker:
        small: dict[str, Any] = {"segment_bytes": "900", "index_interval_bytes": "100"}
        plain = await create(broker, "plain", **small)
        for number in range(40):
            batch = batch_of(b"%04d" % number, producer_id=7, producer_epoch=0, base_sequence=number)
            await produce(broker, plain, batch)
        transacted = await create(broker, "transacted", **small)
        producer = await initialized(broker)
        for number in range(12):
            await settled(stage(broker, transacted, producer, b"in transaction %d" % number))
            producer = await end(broker, producer, is_commit=number % 2 == 0)
        compacted = await create(
            broker, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0", **small
        )
        for number in range(40):
            await produce(broker, compacted, batch_of(b"%04d" % number, key=b"%d" % (number % 3)))
        await broker.housekeeping.compact()
        content: Content = {}
        for topic in TOPICS:
            content[topic], _ = await _served(broker, broker.partition(topic, 0))
        return content


def damage(source: Path, target: Path, random: Random) -> Rot:
    """Copy a data directory, and damage one file of the copy."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    # Each kind of file is equally likely, although most files are log segments.
    kinds: dict[str, list[Path]] = {}
    for path in sorted(target.rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds.setdefault(path.suffix or path.name, []).append(path)
    path = random.choice(kinds[random.choice(sorted(kinds))])
    data = bytearray(path.read_bytes())
    position = random.randrange(len(data))
    bit = None if random.randrange(CUTS_IN) == 0 else random.randrange(8)
    if bit is None:
        del data[position:]
    else:
        data[position] ^= 1 << bit
    path.write_bytes(data)
    is_clean = random.random() < 0.5
    if not is_clean:
        checkpoints.take_clean_mark(Disk(), target)
    return Rot(path.relative_to(target), position, bit, is_clean)


async def live_with(directory: Path, content: Content, reports: list[str]) -> Outcome:
    """Start a broker on this directory and read everything. `reports` collects its log lines."""
    told = [str(found) for found in _verify(directory)]
    try:
        broker = start(directory, SETTINGS)
    except HeadwaterError as error:
        return Outcome(refusal=str(error))
    found = Outcome(reports=reports)
    try:
        for topic, written in content.items():
            served, error = await _served(broker, broker.partition(topic, 0))
            found.violations += _compare(topic, written, served, error, is_told=bool(told or reports))
            if error is not None:
                found.errors[topic] = error
                if not told:
                    found.violations.append(f"{topic} is refused with {error.name}, and `log verify` sees nothing")
    finally:
        await crash(broker)
    return found


@contextmanager
def gathered_reports() -> Generator[list[str]]:
    """Collect the lines that the broker logs during the block."""
    handler = _Reports()
    logger = logging.getLogger("headwater")
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


class _Reports(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _verify(directory: Path) -> list[object]:
    disk = Disk()
    found: list[object] = [*verify_directory(disk, directory)]
    for path in sorted(directory.iterdir()):
        if path.is_dir():
            topic, _, number = path.name.rpartition("-")
            found += verify_partition(disk, directory, TopicPartition(TopicName(topic), int(number)))
    return found


async def _served(broker: Broker, partition: Partition) -> tuple[dict[int, bytes | None], ErrorCode | None]:
    """Records that a client gets which reads from the beginning and verifies no checksums."""
    found: dict[int, bytes | None] = {}
    offset = partition.start_offset
    while offset < partition.high_watermark:
        (read,) = await outcome(fetch(broker, (partition, offset), wait_ms=0))
        if read.error is not ErrorCode.NONE:
            return found, read.error
        assert read.records is not None, "there is more to read"
        assert len(read.records), "a reader is told of records that are not there"
        for header, batch in batches.iterate(read.records.read()):
            records = batches.read_records(batch, header, 1 << 20)
            found |= {
                record.offset: None if header.is_control else record.value
                for record in records
                if record.offset >= offset
            }
            assert header.next_offset > offset, "a reader gets on"
            offset = header.next_offset
    return found, None


def _compare(
    topic: str,
    written: dict[int, bytes | None],
    served: dict[int, bytes | None],
    error: ErrorCode | None,
    *,
    is_told: bool,
) -> list[str]:
    violations = [
        f"{topic}: offset {offset} is served as {value!r}, and was written as {written.get(offset)!r}"
        for offset, value in served.items()
        if offset not in written or written[offset] != value
    ]
    end = max(served, default=-1)
    passed_over = [offset for offset in written if offset <= end and offset not in served]
    if passed_over and not is_told:
        violations.append(f"{topic}: offsets {passed_over} are passed over")
    if error is None and not is_told and served != written:
        violations.append(f"{topic} ends at {end} in silence")
    return violations


async def run(directory: Path, *, seed: int, deadline: float) -> int:
    """The long form, until the deadline on the monotonic clock; returns the number of damages tried."""
    content = await fill(directory / "sound")
    random = Random(seed)
    count = 0
    while time.monotonic() < deadline:
        rot = damage(directory / "sound", directory / "rotten", random)
        try:
            with gathered_reports() as reports:
                found = await live_with(directory / "rotten", content, reports)
            assert not found.violations, found
        except Exception as problem:
            raise AssertionError(f"number {count} of seed {seed}, {rot}: {problem}") from problem
        count += 1
    return count
