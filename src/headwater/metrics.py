"""Counters, histograms and gauges of one broker, readable in process and in Prometheus's text format.

The hot path adds to plain attributes. Values that can be derived are computed at each collection: a gauge is a
function."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

# Upper bounds of a histogram's buckets are powers of two: a bucket is found with `int.bit_length`.
BUCKETS = 40
# Per family: clients decide how many partitions and groups there are, and a collection must stay short.
SAMPLES_MAX = 50_000


class Sample(NamedTuple):
    """One number. `suffix` is what a histogram adds to its name: `_bucket`, `_sum` or `_count`."""

    labels: Labels
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All numbers of one name."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


class Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    """Counts of whole numbers by powers of two. `scale` converts a number to the unit of the output: 1e-6 for
    microseconds that are reported in seconds."""

    __slots__ = ("counts", "scale", "total")

    def __init__(self, scale: float) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0
        self.scale = scale

    def observe(self, value: int) -> None:
        self.counts[min(value.bit_length(), BUCKETS - 1)] += 1
        self.total += value

    def samples(self, labels: Labels) -> Iterator[Sample]:
        seen = 0
        for number, count in enumerate(self.counts):
            seen += count
            # Empty buckets at either end say nothing.
            if seen and (count or seen < sum(self.counts)):
                bound = (1 << number) * self.scale
                yield Sample((*labels, ("le", f"{bound:.9g}")), seen, "_bucket")
        yield Sample((*labels, ("le", "+Inf")), seen, "_bucket")
        yield Sample(labels, self.total * self.scale, "_sum")
        yield Sample(labels, seen, "_count")


class Metrics:
    """The families, in the order in which they were declared."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[Kind, str, Callable[[], Iterable[Sample]]]] = {}
        self._truncated = 0
        self.declare(
            "headwater_metrics_truncated",
            "gauge",
            f"Families with more than {SAMPLES_MAX} numbers, of which the others were left out.",
            lambda: [Sample((), self._truncated)],
        )

    def declare(self, name: str, kind: Kind, text: str, collect: Callable[[], Iterable[Sample]]) -> None:
        """`collect` gives the samples at each collection."""
        assert name not in self._families, f"{name} is declared once"
        self._families[name] = kind, text, collect

    def counter(self, name: str, text: str) -> Counter:
        counter = Counter()
        self.declare(name, "counter", text, lambda: [Sample((), counter.value)])
        return counter

    def histogram(self, name: str, text: str, scale: float) -> Histogram:
        histogram = Histogram(scale)
        self.declare(name, "histogram", text, lambda: histogram.samples(()))
        return histogram

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        self.declare(name, "gauge", text, lambda: [Sample((), value())])

    def collect(self, prefix: str = "") -> list[Family]:
        """Every family whose name begins with `prefix`."""
        return list(self.collect_each(prefix))[::-1]

    def collect_each(self, prefix: str = "") -> Iterator[Family]:
        """The same one by one, the last first, for those who do other work in between."""
        self._truncated = 0
        # The first family counts how many of the others were truncated, so it is collected last.
        for name, (kind, text, collect) in reversed(tuple(self._families.items())):
            if name.startswith(prefix):
                samples = list(islice(collect(), SAMPLES_MAX + 1))
                self._truncated += len(samples) > SAMPLES_MAX
                yield Family(name, kind, text, samples[:SAMPLES_MAX])


def render(families: Iterable[Family]) -> str:
    """The families in Prometheus's text format, version 0.0.4."""
    lines: list[str] = []
    for family in families:
        lines += (f"# HELP {family.name} {_escape(family.help)}", f"# TYPE {family.name} {family.kind}")
        lines += (f"{family.name}{each.suffix}{_braced(each.labels)} {_number(each.value)}" for each in family.samples)
    return "\n".join([*lines, ""]) if lines else ""


def _braced(labels: Labels) -> str:
    pairs = [f'{name}="{_escape(value, quote=True)}"' for name, value in labels]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(text: str, *, quote: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quote else escaped


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.12g}"
