"""One figure of all systems side by side, and its ratio to each peer in the same run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Goal, Series
from benchmarks.goals import ratio_goal
from benchmarks.systems import HEADWATER, PEER


@dataclass(frozen=True, slots=True)
class Ratio:
    """Headwater to a peer, round by round: what the machine does meanwhile falls on both."""

    samples: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.samples)


@dataclass(frozen=True, slots=True)
class Comparison:
    case: str
    name: str
    unit: str
    series: Mapping[str, Series]
    """By the name of the system, in the order in which they ran."""

    @property
    def is_more_better(self) -> bool:
        """Rates are to be high; times, costs and sizes are to be low."""
        return self.unit.endswith("/s")

    @property
    def ratios(self) -> Mapping[str, Ratio]:
        """By the name of the peer; one whose samples are too small to divide by has none."""
        ours = self.series.get(HEADWATER.name)
        if ours is None:
            return {}
        found: dict[str, Ratio] = {}
        for name, theirs in self.series.items():
            # A system that failed has fewer rounds, and they are the first ones.
            pairs = zip(ours.samples, theirs.samples, strict=False)
            samples = [mine / other for mine, other in pairs if other > 0]
            if theirs is not ours and samples:
                found[name] = Ratio(samples)
        return found

    @property
    def goal(self) -> Goal | None:
        """For the ratio to the peer, where there is one and a goal is set."""
        return ratio_goal(self.case, self.name) if PEER in self.ratios else None

    @property
    def goal_met(self) -> bool | None:
        return None if self.goal is None else self.goal.is_met_by(self.ratios[PEER].median)


def compare(series: Iterable[Series]) -> list[Comparison]:
    found: dict[tuple[str, str], dict[str, Series]] = {}
    for each in series:
        found.setdefault((each.case, each.name), {})[each.system] = each
    return [
        Comparison(case, name, next(iter(by_system.values())).unit, by_system)
        for (case, name), by_system in found.items()
    ]
