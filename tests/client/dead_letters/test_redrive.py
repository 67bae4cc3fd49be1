"""Dead letters are put back: what becomes of the records, and that each is there once."""

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord
from headwater.client.dead_letters import redrive
from headwater.client.dead_letters.dead_letters import DeadLetters, NoSuchLetter
from headwater.client.dead_letters.journal import RedriveJournal
from headwater.client.dead_letters.letter import LetterFilter
from headwater.client.dead_letters.redrive import TRANSACTIONAL_ID_PREFIX
from headwater.client.errors import Refused, UnknownTopic
from headwater.client.producer import Producer
from headwater.client.schedule import Place
from headwater.client.transactions.transactional_producer import ProducerFenced, Transaction, TransactionalProducer
from headwater.errors import ConfigError
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.protocol.partitioner import partition_for_key
from headwater.testing import Broker
from tests.support.client.dead_letters import GIVEN_UP_MS, bury, contents, letter_topic, origin, totals, values


def test_a_letter_becomes_the_record_that_it_was(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 7)], value=b"\x00\xff", key=b"\xfe")
    before_ms = cluster.clock.now_ms()

    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (1, 0, 0)

    (record,) = contents(cluster, topic)
    assert record.timestamp_ms >= before_ms
    mark = ("headwater-redriven", f"{dlq}/0@0".encode())
    assert record == ConsumedRecord(topic, 1, 0, record.timestamp_ms, b"\xfe", b"\x00\xff", (("trace", b"1"), mark))


def test_only_what_is_chosen_is_put_back_and_only_once(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster, 3)
    for partition in range(3):
        origins = [origin(topic, 10 * partition + each) for each in range(10)]
        bury(cluster, dlq, [each._replace(reason=Reason(each.offset % 3)) for each in origins], partition=partition)
    letters = DeadLetters(cluster, dlq)
    rejected = LetterFilter(reason=Reason.REJECTED)

    assert totals(list(letters.redrive(rejected))) == (10, 0, 0)
    assert values(cluster, topic) == list(range(0, 30, 3))
    assert totals(list(letters.redrive(rejected))) == (0, 10, 0)
    assert totals(list(letters.redrive([Place(0, 1), Place(0, 0), Place(0, 1)]))) == (1, 1, 0)
    assert [each.place for each in letters.letters(LetterFilter(is_redriven=True))][:3] == [(0, 0), (0, 1), (0, 3)]
    assert totals(list(letters.redrive())) == (19, 11, 0)
    assert values(cluster, topic) == list(range(30))
    # Those that are given up again are other letters.
    bury(cluster, dlq, [origin(topic, 40)])
    assert totals(list(letters.redrive())) == (1, 30, 0)


def test_a_loop_can_be_seen(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0)])
    for times in range(1, 4):
        list(DeadLetters(cluster, dlq).redrive())
        record = contents(cluster, topic)[-1]
        assert [name for name, _ in record.headers].count("headwater-redriven") == times
        # Its consumers fail again.
        bury(cluster, dlq, [origin(topic, 2 * times)], headers=record.headers)
    assert [each.redriven_count for each in DeadLetters(cluster, dlq).letters()] == [0, 1, 2, 3]


def test_letters_go_into_another_topic_by_their_keys(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster, origin_partitions=0)
    Admin(cluster).create_topic(topic, partition_count=5)
    Admin(cluster).create_topic(f"{topic}.repair", partition_count=4)
    letters = DeadLetters(cluster, dlq)
    for each in range(6):
        bury(cluster, dlq, [origin(topic, each, partition=4)], key=b"key-%d" % each if each < 5 else None)

    assert totals(list(letters.redrive(to=f"{topic}.repair", keeps_timestamps=True))) == (6, 0, 0)

    found = {each.value: each for each in contents(cluster, f"{topic}.repair")}
    for each in range(5):
        assert found[b"%d" % each].partition == partition_for_key(b"key-%d" % each, 4)
    assert found[b"5"].partition == 0, "without a key, by the partition that it came from"
    assert {each.timestamp_ms for each in found.values()} == {GIVEN_UP_MS - 1000}
    assert contents(cluster, topic) == []


def test_letters_that_cannot_be_put_back_do_not_hinder_the_others(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "10000"})
    bury(cluster, dlq, [origin(topic, 0), origin(f"{topic}.gone", 1), origin("no/name", 2)])
    bury(cluster, dlq, [origin(topic, 3, is_copied=False), origin("__transaction_state", 4), origin(dlq, 5)])
    bury(cluster, dlq, [origin(topic, 6)], value=bytes(20_000))
    bury(cluster, dlq, [origin(topic, 7)])

    steps = list(DeadLetters(cluster, dlq).redrive())

    assert totals(steps) == (2, 0, 6)
    assert values(cluster, topic) == [0, 7]
    told = {each.letter.origin.offset: each.reason for step in steps for each in step.skipped}
    assert told == {
        1: f"topic '{topic}.gone' does not exist; put it into another topic",
        2: "the name of its topic is not allowed; put it into another topic",
        3: "its content is not in the dead-letter topic (headwater-dlq-content: omitted)",
        4: "topic '__transaction_state' is an internal topic; put it into another topic",
        5: "it comes from this topic itself",
        6: told[6],
    }
    assert "max.message.bytes" in told[6]
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "100000"})
    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (1, 2, 5)


def test_a_huge_value_is_put_back(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "8000000"})
    bury(cluster, dlq, [origin(topic, 0)], value=bytes(6_000_000))
    bury(cluster, dlq, [origin(topic, 1)])
    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (2, 0, 0)
    assert sorted(len(each.value or b"") for each in contents(cluster, topic)) == [1, 6_000_000]


def test_a_trial_writes_nothing(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0), origin(f"{topic}.gone", 1)])
    assert totals(list(DeadLetters(cluster, dlq).redrive(is_trial=True))) == (1, 0, 1)
    assert contents(cluster, topic) == []
    assert not cluster.topics() or f"{dlq}.redriven" not in {each.name for each in cluster.topics()}


def test_wrong_choices_are_refused_before_anything_is_put_back(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0)])
    with Producer(cluster) as producer:
        producer.send(dlq, b"no letter", partition=0)
    letters = DeadLetters(cluster, dlq)
    with pytest.raises(NoSuchLetter, match="has no dead letter at 0-5: there is nothing"):
        letters.redrive([Place(0, 0), Place(0, 5)])
    with pytest.raises(NoSuchLetter, match="at 0-1: the record is no dead letter"):
        letters.redrive([Place(0, 0), Place(0, 1)])
    with pytest.raises(UnknownTopic, match="has partitions 0 to 0, not 7"):
        letters.redrive([Place(7, 0)])
    with pytest.raises(ConfigError, match="cannot be put back into it"):
        letters.redrive(to=dlq)
    with pytest.raises(UnknownTopic, match="does not exist"):
        letters.redrive(to=f"{topic}.nowhere")
    with pytest.raises(ConfigError, match="too few"):
        letters.redrive(per_second_max=0)
    assert contents(cluster, topic) == []


def test_a_rate_makes_pauses(broker: Broker) -> None:
    pauses: list[float] = []
    with Cluster(broker.bootstrap_servers, sleep=pauses.append) as cluster:
        topic, dlq = letter_topic(cluster)
        bury(cluster, dlq, [origin(topic, each) for each in range(25)])
        steps = list(DeadLetters(cluster, dlq).redrive(per_second_max=10))
    assert [each.redriven_count for each in steps] == [10, 10, 5]
    assert sum(pause > 0.2 for pause in pauses) >= 2
    assert max(pauses) <= 1


def test_a_second_redrive_takes_over_from_one_that_hangs(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive, "STEP_LETTERS_MAX", 10)
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(40)])
    letters = DeadLetters(cluster, dlq)
    first = letters.redrive()
    assert next(first).redriven_count == 10

    assert totals(list(letters.redrive())) == (30, 10, 0)

    with pytest.raises(ProducerFenced, match="has lost its place"):
        next(first)
    assert values(cluster, topic) == list(range(40))
    # Nor has it disturbed who took over.
    assert totals(list(letters.redrive())) == (0, 40, 0)


def test_who_was_taken_over_stops_even_if_it_would_only_leave_a_letter_out(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A letter is refused, and before the step is tried without it, another redrive does all of the work."""
    topic, dlq = letter_topic(cluster)
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "10000"})
    bury(cluster, dlq, [origin(topic, each) for each in range(4)])
    bury(cluster, dlq, [origin(topic, 4)], value=bytes(20_000))
    letters = DeadLetters(cluster, dlq)
    others: list[tuple[int, int, int]] = []
    abort = Transaction.abort

    def overtaken(transaction: Transaction) -> None:
        if not others:
            others.append((0, 0, 0))
            others.append(totals(list(letters.redrive())))
        abort(transaction)

    monkeypatch.setattr(Transaction, "abort", overtaken)
    with pytest.raises(ProducerFenced):
        list(letters.redrive())
    assert others[1] == (4, 0, 1)
    assert values(cluster, topic) == [0, 1, 2, 3]


def test_what_a_killed_redrive_left_open_is_put_back_once(cluster: Cluster) -> None:
    """As a process leaves it that is killed after it wrote everything, and before it asked for the commit."""
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(5)])
    journal = RedriveJournal(cluster, cluster.topic(dlq))
    journal.create()
    killed = TransactionalProducer(cluster, f"{TRANSACTIONAL_ID_PREFIX}{dlq}").transaction()
    for each in range(5):
        killed.send(topic, b"%d" % each, partition=0)
    for entry in journal.entry([Place(0, each) for each in range(5)]):
        killed.send(journal.name, entry.value, key=entry.key)
    killed._records.flush()

    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (5, 0, 0)
    assert values(cluster, topic) == list(range(5))


def test_an_open_transaction_of_someone_else_is_waited_for(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers, timeout_ms=500) as cluster:
        topic, dlq = letter_topic(cluster)
        bury(cluster, dlq, [origin(topic, 0)])
        journal = RedriveJournal(cluster, cluster.topic(dlq))
        journal.create()
        job = TransactionalProducer(cluster, f"job-{dlq}").transaction()
        for entry in journal.entry([Place(0, 0)]):
            job.send(journal.name, entry.value, key=entry.key)
        job._records.flush()
        with pytest.raises(Exception, match="is open: letters are being put back by someone else"):
            list(DeadLetters(cluster, dlq).redrive())
        job.commit()
        assert totals(list(DeadLetters(cluster, dlq).redrive())) == (0, 1, 0)
        assert contents(cluster, topic) == []


def test_a_topic_that_was_created_again_has_other_letters(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0)])
    list(DeadLetters(cluster, dlq).redrive())
    Admin(cluster).delete_topic(dlq)
    Admin(cluster).create_topic(dlq, partition_count=1, settings={"errors.deadletterqueue.group.enable": "true"})
    bury(cluster, dlq, [origin(topic, 1)])
    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (1, 0, 0)


def test_a_refusal_of_the_topic_ends_it(cluster: Cluster) -> None:
    """Not one letter after the other: the next ones would be refused as well."""
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(3)])
    Admin(cluster).alter_settings(topic, {"min.insync.replicas": "2"})
    with Cluster(_address(cluster), timeout_ms=500) as impatient, pytest.raises(Refused, match="NOT_ENOUGH_REPLICAS"):
        list(DeadLetters(impatient, dlq).redrive())
    Admin(cluster).alter_settings(topic, {"min.insync.replicas": "1"})
    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (3, 0, 0)


def _address(cluster: Cluster) -> str:
    (broker,) = cluster.metadata().brokers
    return f"{broker.host}:{broker.port}"
