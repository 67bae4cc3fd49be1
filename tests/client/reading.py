"""Records of a consumer, until there are so many."""

from headwater.client.consumer import ConsumedRecord, Consumer


def read(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    while len(records) < count:
        records += consumer.poll()
    return records
