"""The dead letters of one topic: listed, put back where they came from, and purged.

    letters = DeadLetters(cluster, "orders.dlq")
    for letter in letters.letters(LetterFilter(group="billing")):
        print(letter.place, letter.origin, letter.value)
    for step in letters.redrive(LetterFilter(reason=Reason.EXHAUSTED)):
        print(step.redriven_count)

What was put back stays in the topic, and counts as redriven (see `journal.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster, TopicDescription
from headwater.client.dead_letters.journal import RedriveJournal, Redriven
from headwater.client.dead_letters.letter import ALL, DeadLetter, LetterFilter, letter_of
from headwater.client.dead_letters.letter_topics import letter_topic
from headwater.client.dead_letters.redrive import Redriver, RedriveStep
from headwater.client.dead_letters.scan import OffsetSpan, record_at, scan, span_of
from headwater.client.errors import ClientError, Refused
from headwater.client.offsets import EARLIEST, list_offsets
from headwater.client.schedule import Place
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition


class NoSuchLetter(ClientError):
    """There is no dead letter at this place."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class DeadLetters:
    """Raises NoDeadLetterTopic, at the first use, if the topic takes no dead letters."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = TopicName(topic)

    def letters(self, chosen: LetterFilter = ALL, *, after: Place | None = None) -> Iterator[DeadLetter]:
        """The letters that are there now, by partition and offset; with `after`, those behind this place. Records that
        are no dead letters are passed over."""
        journal = RedriveJournal(self._cluster, self._description).read_if_allowed()
        span = span_of(self._cluster, self._topic, since_ms=chosen.since_ms, after=after)
        return (letter for letter in self._read(span, journal) if letter is not None and chosen.matches(letter))

    def at(self, places: Iterable[Place]) -> list[DeadLetter]:
        """The letters at these places. Raises NoSuchLetter if one is not there."""
        journal = RedriveJournal(self._cluster, self._description).read_if_allowed()
        return [self._at(place, journal) for place in dict.fromkeys(places)]

    # -- redrive

    def redrive(
        self,
        chosen: LetterFilter | Sequence[Place] = ALL,
        *,
        to: str | None = None,
        keeps_timestamps: bool = False,
        per_second_max: int | None = None,
        is_trial: bool = False,
    ) -> Iterator[RedriveStep]:
        """Put the chosen letters back into the topics that they come from, or into the topic `to`, each exactly once.

        Each step is a transaction that is over; the caller may stop between two steps, and one that is killed goes on
        by beginning again. `is_trial` writes nothing. Letters that arrive meanwhile are left for the next time. The
        records get the time of now, unless it `keeps_timestamps`.
        """
        redriver = Redriver(
            self._cluster,
            self._description,
            to=to,
            keeps_timestamps=keeps_timestamps,
            per_second_max=per_second_max,
            is_trial=is_trial,
        )
        if isinstance(chosen, LetterFilter):
            span = span_of(self._cluster, self._topic, since_ms=chosen.since_ms)
            return redriver.steps(lambda journal: self._chosen(span, chosen, journal))
        # All of them are looked up before the first is put back.
        letters = self.at(chosen)
        return redriver.steps(
            lambda journal: (each._replace(is_redriven=_is_redriven(journal, each.place)) for each in letters)
        )

    def count(self, chosen: LetterFilter = ALL) -> int:
        """How many offsets a redrive of these letters has to look at."""
        return span_of(self._cluster, self._topic, since_ms=chosen.since_ms).size

    def _chosen(self, span: OffsetSpan, chosen: LetterFilter, journal: Redriven) -> Iterator[DeadLetter | None]:
        for letter in self._read(span, journal):
            yield letter if letter is not None and chosen.matches(letter) else None

    # -- purge

    def purgeable(
        self, *, through: Iterable[Place] = (), older_than_ms: int | None = None, is_redriven: bool = False
    ) -> OffsetSpan:
        """What `purge` would delete: in each partition all up to the place of `through` that names it; or all that is
        older than a time; or all from the beginning on that `is_redriven`; or, with nothing of this, all."""
        description = self._description_for_purge
        span = span_of(self._cluster, self._topic)
        ends: Mapping[TopicPartition, int] = {each: end for each, (_, end) in span.items()}
        if through:
            ends = {}
            for partition, offset in through:
                self._cluster.partition(where := TopicPartition(self._topic, partition))
                if where in span and offset >= span[where][1]:
                    raise NoSuchLetter(f"partition {where} ends before offset {offset}")
                ends[where] = max(offset + 1, ends.get(where, 0))
        elif older_than_ms is not None:
            younger = span_of(self._cluster, self._topic, since_ms=older_than_ms)
            ends = {each: younger[each][0] if each in younger else end for each, end in ends.items()}
        elif is_redriven:
            ends = self._redriven_ends(span, RedriveJournal(self._cluster, description).read())
        found = OffsetSpan()
        for each, (start, _) in span.items():
            if each in ends and start < ends[each]:
                found[each] = start, ends[each]
        return found

    def purge(self, span: OffsetSpan) -> None:
        """Delete what `purgeable` returned, and what the journal says of it."""
        description = self._description_for_purge
        Admin(self._cluster).delete_records({partition: end for partition, (_, end) in span.items()})
        partitions = [TopicPartition(self._topic, each.index) for each in description.partitions]
        starts = list_offsets(self._cluster, partitions, EARLIEST)
        try:
            RedriveJournal(self._cluster, description).trim({each.partition: start for each, start in starts.items()})
        except Refused as refusal:
            # Without the right to do so the entries stay, which does no harm.
            if refusal.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise

    def _redriven_ends(self, span: OffsetSpan, journal: Redriven) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for partition, (start, end) in span.items():
            runs = journal.get(partition.partition)
            records = scan(self._cluster, {partition: (start, end)})
            first_left = next((each.offset for each in records if runs is None or each.offset not in runs), end)
            ends[partition] = first_left
        return ends

    # -- letters

    @cached_property
    def _description(self) -> TopicDescription:
        return letter_topic(self._cluster, self._topic)

    @cached_property
    def _description_for_purge(self) -> TopicDescription:
        """What is deleted must be dead letters: a user who cannot see that they are is refused."""
        return letter_topic(self._cluster, self._topic, must_be_known=True)

    def _at(self, place: Place, journal: Redriven | None) -> DeadLetter:
        where = TopicPartition(self._topic, place.partition)
        self._cluster.partition(where)
        record = record_at(self._cluster, where, place.offset)
        letter = None if record is None else letter_of(record, is_redriven=_is_redriven(journal, place))
        if letter is None:
            what = "there is nothing" if record is None else "the record is no dead letter"
            raise NoSuchLetter(f"topic '{self._topic}' has no dead letter at {place}: {what}")
        return letter

    def _read(self, span: OffsetSpan, journal: Redriven | None) -> Iterator[DeadLetter | None]:
        """None for each record that is no dead letter."""
        for record in scan(self._cluster, span):
            place = Place(record.partition, record.offset)
            yield letter_of(record, is_redriven=_is_redriven(journal, place))


def _is_redriven(journal: Redriven | None, place: Place) -> bool | None:
    if journal is None:
        return None
    return place.partition in journal and place.offset in journal[place.partition]
