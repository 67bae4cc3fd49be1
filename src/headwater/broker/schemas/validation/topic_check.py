"""What one topic asks of the keys and values of its records, as long as its settings stay the same."""

from typing import NamedTuple

from headwater.broker.schemas.validation.side_check import Side, SideCheck, Workplace
from headwater.broker.writes.intake import LargeBatch
from headwater.config.topic import TopicConfig
from headwater.coordination.schemas.state import SchemaState
from headwater.protocol.batches import records
from headwater.protocol.batches.batch import Buffer


class TopicCheck:
    def __init__(self, topic: str, config: TopicConfig, state: SchemaState) -> None:
        self.config = config
        self._sides = [_side_check(side, topic, config, state) for side in _sides(config)]
        # Whether payloads are decoded, and not only the numbers in front of them.
        self.decodes = any(side.decodes for side in self._sides)

    def forget_outdated(self, state: SchemaState) -> None:
        for side in self._sides:
            side.forget_outdated(state)

    def faults(self, payload: Buffer, count: int, faults_max: int, workplace: Workplace) -> dict[int, str]:
        found: dict[int, str] = {}
        if count and faults_max > 0:
            decoded = records.decode(payload, count, 0, 0)
            for side in self._sides:
                side.check(decoded, found, faults_max, workplace)
        return found


class PlacedCheck(NamedTuple):
    """A topic's check in the place where it runs (`intake.RecordCheck`)."""

    check: TopicCheck
    workplace: Workplace
    # Longer payloads are checked in a thread; None where this is one.
    bytes_max: int | None = None

    def faults(self, payload: Buffer, count: int, faults_max: int, first_index: int = 0) -> list[tuple[int, str]]:
        if self.bytes_max is not None and len(payload) > self.bytes_max:
            raise LargeBatch
        found = self.check.faults(payload, count, faults_max, self.workplace)
        return [(first_index + index, fault) for index, fault in sorted(found.items())]


def _sides(config: TopicConfig) -> list[Side]:
    sides: list[Side] = []
    if config.headwater_key_schema_validation != "none":
        sides.append("key")
    if config.headwater_value_schema_validation != "none":
        sides.append("value")
    return sides


def _side_check(side: Side, topic: str, config: TopicConfig, state: SchemaState) -> SideCheck:
    if side == "key":
        return SideCheck(
            side,
            topic,
            validation=config.headwater_key_schema_validation,
            strategy=config.headwater_key_subject_name_strategy,
            pinned=config.headwater_key_schema_subject,
            state=state,
        )
    return SideCheck(
        side,
        topic,
        validation=config.headwater_value_schema_validation,
        strategy=config.headwater_value_subject_name_strategy,
        pinned=config.headwater_value_schema_subject,
        state=state,
    )
