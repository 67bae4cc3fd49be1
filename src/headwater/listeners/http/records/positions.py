"""The positions of a stream in one text, which the client gives back to resume: `0:17,1:4`."""

import re
from collections.abc import Mapping

from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.records.feed import PARTITIONS_MAX

_ENTRY = re.compile(r"([0-9]{1,10}):([0-9]{1,19})")
_OFFSET_MAX = 2**63 - 1


def write_positions(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items())


def read_positions(text: str) -> Mapping[int, int]:
    """Raises a Rejection."""
    entries = text.split(",", PARTITIONS_MAX)
    found: dict[int, int] = {}
    for entry in entries[:PARTITIONS_MAX]:
        matched = _ENTRY.fullmatch(entry)
        if matched is None or int(matched[2]) > _OFFSET_MAX:
            break
        found[int(matched[1])] = int(matched[2])
    if len(found) != len(entries):
        raise Rejection(400, f"positions are PARTITION:OFFSET,…, such as 0:17,1:4, not {text[:40]!r}")
    return found
