"""An acknowledgement is checked, and becomes ranges of offsets with one type each."""

from collections.abc import Iterator, Sequence

from headwater.coordination.shares.commands import AcknowledgedRange, Acknowledgement
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.errors import ErrorCode, Refusal

_TYPES = {each.value: each for each in AcknowledgeType}


def ranges_of(acknowledgements: Sequence[Acknowledgement], *, allows_renewal: bool) -> list[AcknowledgedRange]:
    """The ranges in the order of the log. Refuses what no share-partition could accept."""
    ranges: list[AcknowledgedRange] = []
    previous = -1
    for first, last, types in acknowledgements:
        if first > last:
            raise _invalid(f"the offsets {first} to {last} are no range")
        if first < max(previous, 0):
            raise _invalid(f"offset {first} is negative, or out of order")
        if first == previous:
            raise Refusal(ErrorCode.INVALID_RECORD_STATE, f"offset {first} is acknowledged twice")
        if len(types) not in (1, last - first + 1):
            raise _invalid(f"{len(types)} types for the offsets {first} to {last}: there must be one, or one for each")
        previous = last
        ranges += _split(first, last, [_type(each) for each in types])
    if not allows_renewal and any(each.type is AcknowledgeType.RENEW for each in ranges):
        raise _invalid("the request does not say that it renews acquisitions, or share.renew.acknowledge.enable is off")
    return ranges


def _split(first: int, last: int, types: Sequence[AcknowledgeType]) -> Iterator[AcknowledgedRange]:
    if len(types) == 1:
        yield AcknowledgedRange(first, last, types[0])
        return
    begin = 0
    for position in range(1, len(types) + 1):
        if position == len(types) or types[position] is not types[begin]:
            yield AcknowledgedRange(first + begin, first + position - 1, types[begin])
            begin = position


def _type(number: int) -> AcknowledgeType:
    found = _TYPES.get(number)
    if found is None:
        raise _invalid(f"there is no acknowledge type {number}")
    return found


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
