"""Dead letters are listed and purged; which topics have them."""

import time

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.dead_letters.dead_letters import DeadLetters, NoSuchLetter
from headwater.client.dead_letters.journal import RedriveJournal
from headwater.client.dead_letters.letter import LetterFilter
from headwater.client.dead_letters.letter_topics import NoDeadLetterTopic, letter_topics, letter_topics_of
from headwater.client.errors import ClientError, UnknownTopic
from headwater.client.groups.queue_consumer import QueueConsumer
from headwater.client.producer import Producer
from headwater.client.schedule import Place
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.testing import Broker
from tests.support.broker.settings import NO_HOUSEKEEPING
from tests.support.client.dead_letters import (
    GIVEN_UP_MS,
    bury,
    contents,
    letter_topic,
    origin,
    switch_on,
    totals,
    values,
)
from tests.support.kafka.topic_contents import DEADLINE_S


def offsets(cluster: Cluster, dlq: str, chosen: LetterFilter) -> list[int]:
    return [each.origin.offset for each in DeadLetters(cluster, dlq).letters(chosen)]


def test_what_a_share_group_rejects_is_listed_and_comes_back(cluster: Cluster) -> None:
    """The whole way, with dead letters that the broker writes."""
    topic, dlq = letter_topic(cluster)
    group = f"{topic}-workers"
    switch_on(cluster, group)
    with Producer(cluster) as producer:
        producer.send(topic, b"work", key=b"k", headers=(("trace", b"1"),), partition=1)
    queue = QueueConsumer(cluster, group, [topic])
    for times in (1, 2):
        (received,) = queue.receive(wait_ms=10_000)
        assert received.headers[0] == ("trace", b"1")
        assert len(received.headers) == times
        queue.reject(received.receipt)
        letters = DeadLetters(cluster, dlq)
        deadline = time.monotonic() + DEADLINE_S
        while len(found := list(letters.letters())) < times:
            assert time.monotonic() < deadline, "no dead letter comes"
        letter = found[-1]
        assert (letter.place, letter.value, letter.message) == (
            Place(0, times - 1),
            b"work",
            "Offset rejected by client.",
        )
        assert (letter.origin.topic, letter.origin.partition, letter.origin.group) == (topic, 1, group)
        assert (letter.origin.reason, letter.origin.delivery_count) == (Reason.REJECTED, 1)
        assert (letter.redriven_count, letter.is_redriven) == (times - 1, False)
        assert letter_topics_of(cluster, group) == [dlq]
        assert totals(list(letters.redrive(LetterFilter(is_redriven=False)))) == (1, 0, 0)


def test_filters(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(4)])
    bury(cluster, dlq, [origin(topic, 4, reason=Reason.REJECTED), origin("other", 5), origin(topic, 6, group="audit")])
    with Producer(cluster) as producer:
        producer.send(dlq, b"no letter", partition=0)
    assert offsets(cluster, dlq, LetterFilter()) == [0, 1, 2, 3, 4, 5, 6]
    assert offsets(cluster, dlq, LetterFilter(reason=Reason.REJECTED)) == [4]
    assert offsets(cluster, dlq, LetterFilter(origin_topic="other")) == [5]
    assert offsets(cluster, dlq, LetterFilter(group="audit")) == [6]
    assert offsets(cluster, dlq, LetterFilter(origin_partition=1, group="billing")) == [1, 3, 5]
    assert offsets(cluster, dlq, LetterFilter(since_ms=GIVEN_UP_MS + 3)) == [3, 4, 5, 6]
    assert offsets(cluster, dlq, LetterFilter(since_ms=cluster.clock.now_ms() + 60_000)) == []
    list(DeadLetters(cluster, dlq).redrive([Place(0, 2)]))
    assert offsets(cluster, dlq, LetterFilter(is_redriven=True)) == [2]
    assert offsets(cluster, dlq, LetterFilter(is_redriven=False, reason=Reason.EXHAUSTED)) == [0, 1, 3, 5, 6]


def test_a_list_goes_on_where_it_stopped(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster, 3)
    for partition in (0, 2):
        bury(cluster, dlq, [origin(topic, each) for each in range(3)], partition=partition)
    letters = DeadLetters(cluster, dlq)
    places = [each.place for each in letters.letters()]
    assert places == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2)]
    for index, place in enumerate(places):
        assert [each.place for each in letters.letters(after=place)] == places[index + 1 :]


def test_many_partitions() -> None:
    """At a broker of its own: the open files of so many partitions would be in the way of other tests."""
    with Broker(NO_HOUSEKEEPING) as broker, Cluster(broker.bootstrap_servers) as cluster:
        topic, dlq = letter_topic(cluster, 2000)
        expected = [partition + each for partition in range(0, 2000, 100) for each in range(2)]
        for partition in range(0, 2000, 100):
            bury(cluster, dlq, [origin(topic, partition + each) for each in range(2)], partition=partition)
        letters = DeadLetters(cluster, dlq)
        assert [each.origin.offset for each in letters.letters()] == expected
        assert totals(list(letters.redrive())) == (40, 0, 0)
        assert values(cluster, topic) == expected
        assert letters.purgeable(is_redriven=True).size == 40


def test_other_topics_are_refused(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    with pytest.raises(
        NoDeadLetterTopic, match=rf"'{topic}' is no dead-letter topic.*; its dead letters are in '{dlq}'"
    ):
        DeadLetters(cluster, topic).letters()
    RedriveJournal(cluster, cluster.topic(dlq)).create()
    with pytest.raises(NoDeadLetterTopic, match=r"group\.enable=true$"):
        DeadLetters(cluster, f"{dlq}.redriven").redrive()
    with pytest.raises(NoDeadLetterTopic):
        DeadLetters(cluster, topic).purgeable()
    with pytest.raises(UnknownTopic):
        DeadLetters(cluster, f"{topic}.nowhere").at([Place(0, 0)])
    assert dlq in {each.name for each in letter_topics(cluster)}
    assert topic not in {each.name for each in letter_topics(cluster)}


def test_a_group_without_dead_letters_has_no_topics(cluster: Cluster) -> None:
    assert letter_topics_of(cluster, "no-such-group") == []


def test_purge_cuts_off_the_beginning(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster, 2)
    for partition in (0, 1):
        bury(cluster, dlq, [origin(topic, each) for each in range(5)], partition=partition)
    letters = DeadLetters(cluster, dlq)
    span = letters.purgeable(through=[Place(0, 1), Place(0, 0)])
    assert {each.partition: bounds for each, bounds in span.items()} == {0: (0, 2)}
    letters.purge(span)
    assert [each.place for each in letters.letters()][:4] == [(0, 2), (0, 3), (0, 4), (1, 0)]
    assert letters.purgeable(through=[Place(0, 1)]).size == 0
    with pytest.raises(NoSuchLetter, match="ends before offset 9"):
        letters.purgeable(through=[Place(0, 9)])
    with pytest.raises(UnknownTopic):
        letters.purgeable(through=[Place(2, 0)])
    with pytest.raises(NoSuchLetter):
        letters.at([Place(0, 0)])
    assert letters.purgeable(older_than_ms=cluster.clock.now_ms() - 3_600_000).size == 0
    assert letters.purgeable(older_than_ms=cluster.clock.now_ms() + 3_600_000).size == 8
    letters.purge(letters.purgeable())
    assert list(letters.letters()) == []
    assert letters.purgeable().size == 0


def test_what_was_put_back_is_purged_up_to_the_first_that_was_not(cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(6)])
    letters = DeadLetters(cluster, dlq)
    assert letters.purgeable(is_redriven=True).size == 0
    list(letters.redrive([Place(0, each) for each in (0, 1, 2, 4)]))
    list(letters.redrive([Place(0, 5)]))
    journal = f"{dlq}.redriven"
    assert [each.value for each in contents(cluster, journal)] == [b"0-2,4", b"5"]
    letters.purge(letters.purgeable(is_redriven=True))
    assert [(each.place.offset, each.is_redriven) for each in letters.letters()] == [(3, False), (4, True), (5, True)]
    assert len(contents(cluster, journal)) == 2, "the first entry is needed for the fourth letter"
    letters.purge(letters.purgeable(through=[Place(0, 4)]))
    assert [each.value for each in contents(cluster, journal)] == [b"5"]
    assert [each.is_redriven for each in letters.letters()] == [True]
    letters.purge(letters.purgeable())
    assert contents(cluster, journal) == []


def test_a_foreign_record_in_the_journal_is_named(cluster: Cluster) -> None:
    _, dlq = letter_topic(cluster)
    RedriveJournal(cluster, cluster.topic(dlq)).create()
    for key, value in (
        (b"nonsense", b"1"),
        (f"{cluster.topic(dlq).id}/0".encode(), b"5-3"),
        (f"{cluster.topic(dlq).id}/0".encode(), None),
    ):
        with Producer(cluster) as producer:
            producer.send(f"{dlq}.redriven", value, key=key)
        with pytest.raises(ClientError, match="is no entry of a journal: something else writes"):
            DeadLetters(cluster, dlq).letters()
        Admin(cluster).delete_records({RedriveJournal(cluster, cluster.topic(dlq)).partition: -1})
