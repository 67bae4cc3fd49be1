"""Errors of storage, with the error codes that Kafka clients are told."""

import errno

from headwater.errors import ErrorCode, HeadwaterError


class OffsetOutOfRange(HeadwaterError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class DiskFull(HeadwaterError):
    """Nothing was written and the log is as it was: the same append may succeed later."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class LogFailed(HeadwaterError):
    """The disk failed in a way that leaves its contents unknown. The log takes no append until it is reopened."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_disk_full(error: OSError) -> bool:
    return error.errno in _NO_SPACE
