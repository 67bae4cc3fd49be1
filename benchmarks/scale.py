"""How much work one run does: every case takes its sizes, times and rounds from here, so that a run is bounded."""

from dataclasses import dataclass, replace

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Scale:
    name: str
    rounds: int
    bulk_bytes: int
    """What one bulk case writes or reads."""
    retained_bytes: int
    """What a broker holds where its memory and its recovery are looked at."""
    seconds: float
    """How long one rate of requests is measured."""
    latency_seconds: float
    group_members: tuple[int, ...]
    """The sizes of the groups that rebalance."""
    groups: int
    """How many there are where a broker loads them."""
    producers: tuple[int, ...]
    """How many write side by side where each waits for its own transactions."""


FULL = Scale(
    "full",
    rounds=5,
    bulk_bytes=GIB,
    retained_bytes=GIB,
    seconds=1.0,
    latency_seconds=4.0,
    group_members=(2, 10, 100, 500),
    groups=1000,
    producers=(1, 4, 10),
)
QUICK = replace(
    FULL,
    name="quick",
    rounds=3,
    bulk_bytes=256 * MIB,
    seconds=0.3,
    latency_seconds=2.0,
    group_members=(10, 100),
    producers=(1, 10),
)
# Shows that every case still works; its figures mean nothing.
SMOKE = Scale(
    "smoke",
    rounds=1,
    bulk_bytes=4 * MIB,
    retained_bytes=4 * MIB,
    seconds=0.05,
    latency_seconds=0.2,
    group_members=(3,),
    groups=20,
    producers=(2,),
)

SCALES = {scale.name: scale for scale in (FULL, QUICK, SMOKE)}
