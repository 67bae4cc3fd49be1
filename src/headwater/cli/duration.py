"""Durations as people write and read them: 500ms, 30s, 15m, 2h, 7d."""

import re

import click

_MS_PER_UNIT = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_WRITTEN = re.compile(rf"([0-9]{{1,10}})({'|'.join(_MS_PER_UNIT)})")


class Duration(click.ParamType[int]):
    """A number with a unit, converted to milliseconds. A bare number is refused: its unit is unknown."""

    name = "DURATION"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        written = _WRITTEN.fullmatch(value)
        if written is None:
            self.fail(f"{value!r} is not a number with a unit, such as 500ms, 30s, 15m, 2h or 7d", param, ctx)
        return int(written[1]) * _MS_PER_UNIT[written[2]]


def duration_text(duration_ms: int) -> str:
    """Format a duration in its two largest units: 1h 30m. Clocks that disagree can make it negative: -5s."""
    remaining, parts = abs(duration_ms), list[str]()
    for unit, unit_ms in _MS_PER_UNIT.items():
        count, remaining = divmod(remaining, unit_ms)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return ("-" if duration_ms < 0 else "") + (" ".join(parts) or "0ms")
