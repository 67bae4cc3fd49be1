"""The refusal of records that contradict their batch or topic."""

from collections.abc import Sequence

from headwater.errors import CorruptBatch, ErrorCode


class InvalidRecord(CorruptBatch):
    """Records that contradict their batch or topic. `index` is the first bad record, -1 if there is no single one;
    `refused` has all that are known, each with its fault."""

    def __init__(
        self,
        message: str,
        index: int = -1,
        code: ErrorCode = ErrorCode.INVALID_RECORD,
        refused: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(message if index < 0 else f"record {index} {message}")
        self.code = code
        self.index = index
        self.refused = refused


def refusal_of_each(found: Sequence[tuple[int, str]]) -> InvalidRecord:
    """Names all records that are to blame, by their index, with their faults (KIP-467)."""
    index, fault = found[0]
    others = f" ({len(found)} records are refused)" if len(found) > 1 else ""
    return InvalidRecord(fault + others, index, refused=found)
