"""Has 20,000 records copied while copiers and the broker are killed again and again, and looks at the copies."""

import random
import sys
from collections import Counter
from collections.abc import Sequence

from confluent_kafka import Producer

from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.topic_contents import read, transactional_producer
from tests.support.transactions.copiers import Copier, Copiers

PARTITIONS = 6
COPIERS = 2
KILLS = 10
# Two times for each kill of the broker.
RECORDS_AT_A_TIME = 1_000
RECORDS = 2 * KILLS * RECORDS_AT_A_TIME
ABORTED_AT_A_TIME = 100


class Feeder:
    """Its keys are the numbers. Each time it also aborts a transaction, whose records nobody must copy."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.count = 0
        self._producer: Producer = transactional_producer(broker, "feeder")

    def feed(self) -> None:
        self._producer.begin_transaction()
        for number in range(ABORTED_AT_A_TIME):
            self._producer.produce("source", b"aborted", key=b"-1", partition=number % PARTITIONS)
        self._producer.flush()
        self._producer.abort_transaction()
        self._producer.begin_transaction()
        for number in range(self.count, self.count + RECORDS_AT_A_TIME):
            self._producer.produce("source", b"original", key=b"%d" % number, partition=number % PARTITIONS)
        self._producer.commit_transaction()
        self.count += RECORDS_AT_A_TIME


def create_topics(broker: BrokerProcess, *topics: str) -> None:
    with RawClient(broker) as raw:
        for topic in topics:
            raw.create(topic, PARTITIONS)


def copy_amid_kills(
    broker: BrokerProcess, copiers: Copiers, steps: Sequence[str], *, transaction_timeout_ms: int = 30_000
) -> Sequence[str]:
    """From "source" to "target". Copier and broker are killed by turns, when some copier comes to one of the steps.

    Gives the values of the copies, which are there once each and in order.
    """
    seed = random.getrandbits(32)
    # Shown if it fails.
    sys.stdout.write(f"seed {seed}\n")
    choice = random.Random(seed).choice
    feeder = Feeder(broker)
    for number in range(COPIERS):
        copiers.start(f"copier-{number}", transaction_timeout_ms=transaction_timeout_ms)
    for _ in range(KILLS):
        copiers.replace(_first_to(choice(steps), copiers, feeder))
        _first_to(choice(steps), copiers, feeder)
        broker.kill()
        broker.start()

    source = read(broker, "source", PARTITIONS)
    copiers.copy_up_to({partition: originals[-1].offset + 1 for partition, originals in source.items()})
    target = read(broker, "target", PARTITIONS)

    assert Counter(original.value for each in source.values() for original in each) == {b"original": RECORDS}
    for partition, originals in source.items():
        assert [copy.key for copy in target[partition]] == [original.key for original in originals]
    return [copy.value.decode() for each in target.values() for copy in each]


def _first_to(step: str, copiers: Copiers, feeder: Feeder) -> Copier:
    """Who comes to that step first, once there is more to copy; half of what there was is copied by then."""
    if feeder.count:
        copiers.copy_about(feeder.count // 2, PARTITIONS)
    seen = {copier: len(copier.steps) for copier in copiers.members}

    def those_who_did() -> Sequence[Copier]:
        return [each for each in copiers.members if any(step == told.name for told in each.steps[seen[each] :])]

    feeder.feed()
    copiers.wait_until(lambda: bool(those_who_did()))
    return those_who_did()[0]


def check_transactions(copiers: Copiers, transactions: Sequence[str]) -> None:
    """Each copy tells its transaction. Each of those is there as a whole or not at all, and none that was aborted."""
    seen = Counter(transactions)
    begun = {step.transaction: step.detail for step in copiers.steps("begun")}
    assert seen == {transaction: begun[transaction] for transaction in seen}
    assert seen.keys() >= {step.transaction for step in copiers.steps("committed")}
    aborted = {step.transaction for step in copiers.steps("aborting") + copiers.steps("failed")}
    assert aborted
    assert not seen.keys() & aborted
