from dataclasses import dataclass

from headwater.storage.cleaning.retention import expired_count
from tests.support.storage.builders import NOW_MS, settings


@dataclass(frozen=True)
class Old:
    base_offset: int
    next_offset: int
    size: int = 100
    largest_timestamp: int = NOW_MS


def segments(*timestamps: int, last_size: int = 100) -> list[Old]:
    found = [Old(10 * n, 10 * n + 10, 100, timestamp) for n, timestamp in enumerate(timestamps)]
    return [*found[:-1], Old(found[-1].base_offset, found[-1].next_offset, last_size, timestamps[-1])]


def count(found: list[Old], *, start: int = 0, limit: int = 1000, now_ms: int = NOW_MS, **changes: object) -> int:
    options = {"retention_ms": -1, **changes}
    return expired_count(found, settings(**options), start_offset=start, limit_offset=limit, now_ms=now_ms)


def test_no_segment_expires_without_limits() -> None:
    assert count(segments(0, 0, 0)) == 0


def test_retention_by_age_stops_at_the_first_young_segment() -> None:
    found = segments(NOW_MS - 11, NOW_MS - 10, NOW_MS - 99, NOW_MS)
    assert count(found, retention_ms=10) == 1
    assert count(found, retention_ms=9) == 3


def test_the_active_segment_expires_too_unless_it_is_empty() -> None:
    assert count(segments(0, 0), retention_ms=10) == 2
    assert count(segments(0, 0, last_size=0), retention_ms=10) == 1


def test_retention_by_size_never_goes_below_the_limit() -> None:
    found = segments(0, 0, 0, 0)
    assert [count(found, retention_bytes=limit) for limit in (400, 399, 300, 299, 100, 0)] == [0, 0, 1, 1, 3, 4]


def test_no_segment_at_or_beyond_the_high_watermark_expires() -> None:
    assert count(segments(0, 0, 0), retention_ms=10, limit=20) == 2
    assert count(segments(0, 0, 0), retention_ms=10, limit=19) == 1


def test_segments_before_the_start_offset_expire_under_any_policy() -> None:
    compact = frozenset({"compact"})
    assert count(segments(0, 0, 0), start=25, cleanup_policy=compact, retention_ms=10) == 2
    assert count(segments(0, 0, 0), start=19, cleanup_policy=compact) == 1
    assert count(segments(0, 0, 0), start=30, cleanup_policy=compact) == 2
    assert count(segments(0, 0, 0), start=10, retention_bytes=100) == 2, "then by size"
