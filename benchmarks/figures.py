"""What a case measures: one `Figure` per round, a `Series` over all rounds of the run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.processes import Resources
from benchmarks.scale import Scale
from benchmarks.systems import HEADWATER, KAFKA_PROTOCOL, System


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    value: float
    limit: str = ""
    note: str = ""
    resources: Resources | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """`measure` starts the system in the empty directory that it is given, once per round."""

    name: str
    about: str
    measure: Callable[[System, Path, Scale], Iterable[Figure]]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the broker is set to for this case, beside what the system says of itself."""
    why_headwater_only: str = ""
    """Empty for a case that every system can run."""
    missing: Callable[[], str] = str
    """Why it cannot be measured here; empty if it can."""
    protocols: frozenset[str] = frozenset({KAFKA_PROTOCOL})
    """What its loads speak."""

    def is_for(self, system: System) -> bool:
        if system.protocol not in self.protocols:
            return False
        return not self.why_headwater_only or system.name == HEADWATER.name


@dataclass(frozen=True, slots=True)
class Goal:
    value: float
    is_ceiling: bool

    def is_met_by(self, value: float) -> bool:
        return value <= self.value if self.is_ceiling else value >= self.value


class Series:
    """The same figure of one system, round after round."""

    def __init__(self, case: str, system: str, goal: Goal | None = None) -> None:
        self.case = case
        self.system = system
        self.goal = goal
        self.figures: list[Figure] = []

    @property
    def name(self) -> str:
        return self.figures[0].name

    @property
    def unit(self) -> str:
        return self.figures[0].unit

    @property
    def samples(self) -> list[float]:
        return [figure.value for figure in self.figures]

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def typical(self) -> Figure:
        """The round that is nearest to the median."""
        return min(self.figures, key=lambda figure: abs(figure.value - self.median))

    @property
    def goal_met(self) -> bool | None:
        return None if self.goal is None else self.goal.is_met_by(self.median)
