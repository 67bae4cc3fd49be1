"""Members that commit with an outdated generation, in groups of their own, one for each protocol.

No library does this on purpose. Here the member itself starts the next generation, so it is certainly outdated.
"""

import threading
from abc import ABC, abstractmethod
from itertools import count

from tests.faults.histories.clients.fetcher import Address
from tests.faults.histories.clients.options import Options
from tests.faults.histories.recording import Recorder
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import Place, commit, consumer_member, find, join, leave, member_heartbeat, sync

PAUSE_S = 0.1
LEAVE_EPOCH = -1


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    offsets = count(1)
    number = 0
    while not is_told_to_stop.wait(PAUSE_S):
        try:
            with RawClient(Address(options["bootstrap_servers"])) as client:
                Classic(client, options, recorder).haunt(number, next(offsets), next(offsets))
                Consumer(client, options, recorder).haunt(number, next(offsets), next(offsets))
        except (OSError, NotReady):
            # The broker was killed or has just come back. A member is left in the group.
            number += 1


class NotReady(Exception):
    pass


class _Zombie(ABC):
    protocol = ""

    def __init__(self, client: RawClient, options: Options, recorder: Recorder) -> None:
        assert "target" in options
        self._client, self._recorder = client, recorder
        self._topic, self._other_topic = options["topic"], options["target"]
        self._name = options["name"]

    def haunt(self, number: int, stale: int, right: int) -> None:
        group = f"{self._name}-{self.protocol}-{number}"
        former = self._begin(group)
        place = self._go_on(group, former)
        for offset, member in ((right, place), (stale, former), (right, place)):
            self._commit(group, member, offset)
        self._leave(group, place)

    @abstractmethod
    def _begin(self, group: str) -> Place: ...

    @abstractmethod
    def _go_on(self, group: str, place: Place) -> Place: ...

    @abstractmethod
    def _leave(self, group: str, place: Place) -> None: ...

    def _assigned(self, group: str, place: Place) -> None:
        self._recorder.note(
            "assign",
            group=group,
            protocol=self.protocol,
            member=place.member_id,
            generation=place.generation,
            topic=self._topic,
            partitions=[],
        )

    def _commit(self, group: str, place: Place, offset: int) -> None:
        invoked = self._recorder.invoke(
            "commit",
            group=group,
            member=place.member_id,
            generation=place.generation,
            topic=self._topic,
            offsets=[(0, offset)],
        )
        code = commit(self._client, group, place, self._topic, offset)
        if code:
            invoked.fail(error=code)
        else:
            invoked.ok(generation_after=place.generation)


class Classic(_Zombie):
    protocol = "classic"

    def _begin(self, group: str) -> Place:
        find(self._client, group)
        return self._join(group, Place())

    def _go_on(self, group: str, place: Place) -> Place:
        # A leader that joins again begins a generation.
        return self._join(group, place)

    def _leave(self, group: str, place: Place) -> None:
        leave(self._client, group, place)

    def _join(self, group: str, place: Place) -> Place:
        joined = join(self._client, group, place, topics=[self._topic])
        if joined.error_code:
            raise NotReady
        place = Place(joined.member_id, joined.generation_id)
        if sync(self._client, group, place, {place.member_id: b"all"}).error_code:
            raise NotReady
        self._assigned(group, place)
        return place


class Consumer(_Zombie):
    protocol = "consumer"

    def _begin(self, group: str) -> Place:
        try:
            place = consumer_member(self._client, group, self._topic)
        except AssertionError as error:
            raise NotReady from error
        self._assigned(group, place)
        return place

    def _go_on(self, group: str, place: Place) -> Place:
        # A changed subscription starts a new epoch.
        told = member_heartbeat(self._client, group, place, topics=[self._topic, self._other_topic])
        if told.error_code:
            raise NotReady
        place = place._replace(generation=told.member_epoch)
        self._assigned(group, place)
        return place

    def _leave(self, group: str, place: Place) -> None:
        member_heartbeat(self._client, group, place._replace(generation=LEAVE_EPOCH))
