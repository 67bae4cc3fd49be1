"""The leader epoch that a client believes in, against the one that is."""

from headwater.broker.partition import Partition
from headwater.errors import ErrorCode, Refusal


def check_leader_epoch(partition: Partition, believed: int) -> None:
    if believed < 0 or believed == partition.leader_epoch:
        return
    if believed < partition.leader_epoch:
        raise Refusal(
            ErrorCode.FENCED_LEADER_EPOCH, f"{partition.id} is at leader epoch {partition.leader_epoch}, not {believed}"
        )
    raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{partition.id} is only at leader epoch {partition.leader_epoch}")
