"""One figure of all systems side by side, and its ratio to each peer in the same run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Goal, Series
from benchmarks.goals import ratio_goal
from benchmarks.systems import HEADWATER, PEER


@dataclass(frozen=True, slots=True)
class Ratio:
    """Headwater relative to a peer, round by round, so that other load of the machine affects both alike."""

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
        """Higher is better for rates; lower is better for times, costs and sizes."""
        return self.unit.endswith("/s")

    @property
    def ratios(self) -> Mapping[str, Ratio]:
        """Ratios by peer name; a peer whose samples are zero has none."""
        ours = self.series.get(HEADWATER.name)
        if ours is None:
            return {}
        found: dict[str, Ratio] = {}
        for name, theirs in self.series.items():
            # A system that failed has only the first rounds.
            pairs = zip(ours.samples, theirs.samples, strict=False)
            samples = [mine / other for mine, other in pairs if other > 0]
            if theirs is not ours and samples:
                found[name] = Ratio(samples)
        return found

    @property
    def goal(self) -> Goal | None:
        """The goal of the ratio to the peer, if there are both."""
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
