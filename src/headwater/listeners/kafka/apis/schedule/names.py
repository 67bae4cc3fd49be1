"""Names of scheduled records in requests."""

from collections.abc import Sequence

from headwater.broker.schedule.administration import RecordName
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.messages.schedule.list_scheduled_records import ScheduledName

# Each may need a read of the log.
NAMES_MAX = 1000


def check_names(names: Sequence[ScheduledName]) -> None:
    if len(names) > NAMES_MAX:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{len(names)} records are named, at most {NAMES_MAX} may be")


def read_name(name: ScheduledName) -> RecordName:
    return RecordName(name.partition_index, name.schedule_offset, name.schedule_id)
