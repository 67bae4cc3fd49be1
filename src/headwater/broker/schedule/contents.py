"""Contents of scheduled records, read from the schedule's log by their offsets."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.schedule.log import ENTRIES_PER_BATCH
from headwater.coordination.schedule.events import Contents
from headwater.errors import CorruptBatch, HeadwaterError
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.protocol.stored import schedule as stored

# Of small batches a few are read at once, for neighbours of the entry.
_READ_BYTES = 32 << 10
_BATCH_BYTES_MAX = 1 << 30


class Found(NamedTuple):
    contents: Mapping[int, Contents]
    # Entries that cannot be read, and why.
    damaged: Mapping[int, str]


class _Range(NamedTuple):
    wanted: Sequence[int]
    bytes: FileRange


async def read(partition: Partition, offsets: Sequence[int]) -> Found:
    """Ranges are found on the event loop, which owns the log, and read in a thread."""
    contents: dict[int, Contents] = {}
    damaged: dict[int, str] = {}
    missing = sorted(offsets)
    while missing:
        ranges: list[_Range] = []
        for group in _neighbours(missing):
            try:
                found = partition.read_written(group[0], _READ_BYTES, partition.end_offset)
            except HeadwaterError as error:
                damaged.update(dict.fromkeys(group, str(error)))
            else:
                ranges.append(_Range(group, found))
        missing = await asyncio.to_thread(_read_ranges, ranges, contents, damaged)
    return Found(contents, damaged)


def _neighbours(offsets: Sequence[int]) -> list[list[int]]:
    """Offsets that are likely to lie in the same batch or the next one."""
    groups: list[list[int]] = []
    for offset in offsets:
        if groups and offset - groups[-1][-1] < ENTRIES_PER_BATCH:
            groups[-1].append(offset)
        else:
            groups.append([offset])
    return groups


def _read_ranges(ranges: Sequence[_Range], contents: dict[int, Contents], damaged: dict[int, str]) -> list[int]:
    """Adds what is found, and gives the offsets behind the ranges."""
    missing: list[int] = []
    for wanted, found in ranges:
        left = set(wanted)
        end = wanted[0]
        try:
            for header, batch in batches.iterate(found.read()):
                end = header.next_offset
                if not any(header.base_offset <= offset < end for offset in left):
                    continue
                batches.verify(batch, header)
                for record in batches.read_records(batch, header, _BATCH_BYTES_MAX):
                    if record.offset in left:
                        left.remove(record.offset)
                        contents[record.offset] = _contents(record)
            if end == wanted[0]:
                raise CorruptBatch("no whole batch is there")
        except HeadwaterError as error:
            damaged.update(dict.fromkeys(left, str(error)))
            continue
        for offset in left:
            if offset < end:
                damaged[offset] = "it is not in the log"
            else:
                missing.append(offset)
    return sorted(missing)


def _contents(record: Record) -> Contents:
    if record.value is None:
        raise CorruptBatch(f"the record at offset {record.offset} is none that was scheduled")
    entry = stored.read_entry(record.value)
    return Contents(entry.schedule_id.decode(errors="replace") or None, entry.record)
