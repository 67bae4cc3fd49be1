"""Polls a consumer until a given number of records has arrived."""

from headwater.client.consumer import ConsumedRecord, Consumer


def read(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    while len(records) < count:
        records += consumer.poll()
    return records
