"""Error codes of transactions that later versions of a request added, and the codes that older clients get instead."""

from typing import NamedTuple

from headwater.errors import ErrorCode, HeadwaterError


class KnownFrom(NamedTuple):
    """The first version of a request that knows each code."""

    fenced: int
    abortable: int

    def code(self, error: HeadwaterError | None, version: int) -> ErrorCode:
        if error is None:
            return ErrorCode.NONE
        return self.translated(error.code, version)

    def translated(self, code: ErrorCode, version: int) -> ErrorCode:
        if code is ErrorCode.PRODUCER_FENCED and version < self.fenced:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and version < self.abortable:
            return ErrorCode.INVALID_TXN_STATE
        return code
