"""Records that a query had to read but that no longer exist."""

from headwater.errors import HeadwaterError
from headwater.ids import TopicPartition


class DataLoss(HeadwaterError):
    """Raised unless `failOnDataLoss` is false. Offsets that never had a record are not a loss."""

    def __init__(self, partition: TopicPartition, reason: str) -> None:
        super().__init__(
            f"data loss in {partition}: {reason}. "
            "To go on with what is there, set the option 'failOnDataLoss' to 'false'"
        )
        self.partition = partition


def removed(partition: TopicPartition, expected: int, earliest: int) -> DataLoss:
    return DataLoss(
        partition, f"expected offset {expected}, the earliest is {earliest}: retention or a deletion came first"
    )


def shortened(partition: TopicPartition, expected: int, latest: int) -> DataLoss:
    return DataLoss(
        partition, f"expected offset {expected}, but it ends at {latest}: the topic was made anew, or its log was cut"
    )


def deleted(partition: TopicPartition, expected: int) -> DataLoss:
    return DataLoss(partition, f"expected offset {expected}, but the partition does not exist any more")
