"""Brokers whose disk fails, and the long form of these tests."""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from headwater.errors import ErrorCode
from tests.faults.disk_trouble.full_disks import FullDisk, filled_volume, limited_files, told_to_be_full
from tests.faults.disk_trouble.troubles import MET, Note, Trouble
from tests.faults.kills.life import Life
from tests.faults.kills.loads import DEADLINE_S
from tests.support.broker.processes import BrokerProcess, wait_until
from tests.support.kafka.raw_client import RawClient, batch_of

LAUNCHER = "tests.faults.disk_trouble.troubled_broker"
# Large enough to exceed every limit.
_LARGE = bytes(6000)
_VOLUME_BYTES = 48 << 20
_TROUBLES_A_LIFE = 8
_FULL_SHARE = 0.5
_PATTERNS = ("numbers-*/*", "trimmed-*/*", "compacted-*/*", "ledger-*/*", "__*/*", "*/*checkpoint*")


def note_beside(directory: Path) -> Note:
    return Note(directory / "trouble")


def meet(broker: BrokerProcess, note: Note, trouble: Trouble) -> None:
    """Plant the trouble, and return once the broker has met it."""
    before = broker.log.count(MET)
    note.write(trouble)
    wait_until(lambda: broker.log.count(MET) > before, f"{trouble} was never met")


def survive_a_full_disk(life: Life, note: Note, full_disk: FullDisk) -> None:
    """Let a disk become full under load; once there is space again, all clients complete their work."""
    topic = f"probe-{time.monotonic_ns()}"
    with RawClient(life.broker) as raw:
        # Its records have old timestamps.
        raw.create(topic, retention_ms="-1")
        with full_disk(life.broker, note):
            stored = _fill(raw, topic)
            # The broker refuses writes and still serves reads, whole batches only.
            assert len(raw.records(topic)) == stored
            assert raw.fetch("numbers", 0).error_code == 0
        written = raw.produce(topic, batch_of(_LARGE))
        assert (written.error_code, written.base_offset) == (0, stored)
        assert [record.value for record in raw.records(topic)] == [_LARGE] * (stored + 1)
    life.check()


def _fill(raw: RawClient, topic: str) -> int:
    """Produce until the disk is full; returns the number of records that fitted."""
    deadline = time.monotonic() + DEADLINE_S
    for stored in count():
        written = raw.produce(topic, batch_of(_LARGE))
        if written.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            return stored
        assert (written.error_code, written.base_offset) == (0, stored)
        assert time.monotonic() < deadline, "there is always room"
    raise AssertionError


class Troubles(NamedTuple):
    lives: int
    troubles: int


def run(directory: Path, *, seed: int, deadline: float, troubles_max: int | None = None) -> Troubles:
    """Run until the deadline on the monotonic clock or for this many troubles. As root a small volume really becomes
    full. An AssertionError names the seed of the life; a run from that seed begins with that life."""
    lives = troubles = 0
    for life_seed in count(seed):
        if time.monotonic() >= deadline or (troubles_max is not None and troubles >= troubles_max):
            break
        try:
            with _volume(directory / f"life-{life_seed}") as (home, full_disks):
                troubles += _live(home, full_disks, random.Random(life_seed), deadline, troubles_max)
        except Exception as problem:
            raise AssertionError(f"life of seed {life_seed}, after {troubles} troubles: {problem}") from problem
        lives += 1
    return Troubles(lives, troubles)


def _live(
    directory: Path, full_disks: Sequence[FullDisk], chance: random.Random, deadline: float, troubles_max: int | None
) -> int:
    note = note_beside(directory)
    launcher = (LAUNCHER, str(note.path))
    with Life(directory, flush=chance.choice(("ack", "interval", "os")), launcher=launcher) as life:
        for number in range(1, _TROUBLES_A_LIFE + 1):
            if chance.random() < _FULL_SHARE:
                survive_a_full_disk(life, note, chance.choice(full_disks))
            else:
                operation = chance.choice(("write", "sync"))
                moment = "amid" if operation == "write" else chance.choice(("before", "after"))
                meet(life.broker, note, Trouble(operation, moment, chance.choice(_PATTERNS), "EIO"))
                life.broker.kill()
                note.remove()
                life.broker.start(launcher)
                life.check()
            if time.monotonic() >= deadline or number == troubles_max:
                return number
    return _TROUBLES_A_LIFE


@contextmanager
def _volume(directory: Path) -> Generator[tuple[Path, Sequence[FullDisk]]]:
    """A small volume where mounting is allowed, and the ways in which it can be full."""
    directory.mkdir()
    options = f"size={_VOLUME_BYTES}"
    is_mounted = os.geteuid() == 0 and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], stderr=subprocess.DEVNULL
    )
    try:
        yield directory, (told_to_be_full, limited_files, *((filled_volume,) if is_mounted else ()))
    except BaseException:
        # The log is all that is left of the failed life.
        shutil.copy(directory / "broker.log", directory.with_suffix(".log"))
        raise
    finally:
        if is_mounted:
            subprocess.check_call(["umount", "--lazy", directory])
        shutil.rmtree(directory)
