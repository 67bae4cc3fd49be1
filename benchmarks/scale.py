"""How much work one run does: every case takes its sizes, times and rounds from here, so that a run is bounded."""

from dataclasses import dataclass

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


FULL = Scale("full", rounds=5, bulk_bytes=GIB, retained_bytes=GIB, seconds=1.0, latency_seconds=4.0)
QUICK = Scale("quick", rounds=3, bulk_bytes=256 * MIB, retained_bytes=GIB, seconds=0.3, latency_seconds=2.0)
# Shows that every case still works; its figures mean nothing.
SMOKE = Scale("smoke", rounds=1, bulk_bytes=4 * MIB, retained_bytes=4 * MIB, seconds=0.05, latency_seconds=0.2)

SCALES = {scale.name: scale for scale in (FULL, QUICK, SMOKE)}
