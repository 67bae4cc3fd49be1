"""One round: clients of all kinds, faults at random, then peace, the end of all work, and the checks."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.faults.histories.facts import Violation
from tests.faults.histories.load import Client, Load
from tests.support.broker.processes import BrokerProcess

PER_SECOND = 80
MEMBERS_MAX = 4
PAUSE_S_MAX = 8.0
ADMIN_TIMEOUT_S = 30
# Small segments, so that each round rolls, removes and compacts many.
SEGMENT_BYTES = "16384"


class Round:
    def __init__(
        self, broker: BrokerProcess, history: Path, number: int, choices: random.Random, faults: Counter[str]
    ) -> None:
        self._broker = broker
        self._choices = choices
        self._faults = faults
        self._load = Load(broker, history, f"r{number}-")
        # All members of a group use one protocol, which changes from round to round.
        self._protocols = ("classic", "consumer") if number % 2 else ("consumer", "classic")

    def run(self, duration_s: float, *, may_restart: bool, operations: Counter[str]) -> list[Violation]:
        with self._load as load:
            self._start()
            faults: Mapping[str, Callable[[], None]] = {
                "pauses": self._pause,
                "quiet spells": self._rest,
                "killed clients": self._kill_client,
                "members that joined": self._join,
                "members that left": self._leave,
            }
            if may_restart:
                faults = {**faults, "kills": self._kill, "restarts": self._restart}
            load.wait_for_more("poll", 1)
            deadline = time.monotonic() + duration_s
            while time.monotonic() < deadline:
                name = self._choices.choice([*faults])
                faults[name]()
                self._faults[name] += 1
                time.sleep(self._choices.uniform(0, 2))
            found = load.finish()
            operations.update(load.progress)
            self._forget()
        return found

    def _start(self) -> None:
        load = self._load
        source, target = load.topic("source", 2), load.topic("target", 3, segment_bytes=SEGMENT_BYTES)
        limited = load.topic("limited", 2, segment_bytes=SEGMENT_BYTES, retention_bytes="65536")
        compacted = load.topic(
            "compacted",
            2,
            cleanup_policy="compact",
            segment_bytes=SEGMENT_BYTES,
            min_cleanable_dirty_ratio="0.1",
            delete_retention_ms="1000",
        )
        for topic in (source, limited, compacted):
            load.start("producer", topic, per_second=PER_SECOND)
        first, second = self._protocols
        for number in range(2):
            load.start(
                "copier",
                source,
                group="copiers",
                protocol=first,
                target=target,
                transactional_id=f"{target}-{number}",
                committed_only=True,
            )
        load.start("member", limited, group="limited", protocol=first)
        load.start("member", compacted, group="compacted", protocol=second)
        load.start("member", target, group="target", protocol=second, committed_only=True)
        load.start("fetcher", source)
        load.start("zombie", source, target=target)

    # -- faults

    def _kill(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _restart(self) -> None:
        assert self._broker.stop() == 0
        self._broker.start()

    def _pause(self) -> None:
        """Pause the broker, sometimes for longer than the session time-out."""
        os.kill(self._broker.pid, signal.SIGSTOP)
        time.sleep(self._choices.triangular(0, PAUSE_S_MAX, 0))
        os.kill(self._broker.pid, signal.SIGCONT)

    def _rest(self) -> None:
        time.sleep(self._choices.uniform(1, 5))

    def _kill_client(self) -> None:
        self._load.replace(self._choices.choice(self._load.clients))

    def _join(self) -> None:
        members = self._members()
        if len(members) < MEMBERS_MAX:
            self._load.double(self._choices.choice(members))

    def _leave(self) -> None:
        """Let a member leave, but never the last one of a group."""
        members = self._members()
        groups = Counter(member.options.get("group") for member in members)
        leaving = [member for member in members if groups[member.options.get("group")] > 1]
        if leaving:
            self._load.leave(self._choices.choice(leaving))

    def _members(self) -> list[Client]:
        return [client for client in self._load.clients if client.options["role"] == "member"]

    # -- the end

    def _forget(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers, "log_level": 0})
        for deleted in admin.delete_topics([*self._load.topics]).values():
            deleted.result(ADMIN_TIMEOUT_S)
        listed = admin.list_consumer_groups(request_timeout=ADMIN_TIMEOUT_S).result()
        if names := [group.group_id for group in listed.valid]:
            for deleted in admin.delete_consumer_groups(names).values():
                # A group whose last member was killed can be deleted after its session time-out, in the next round.
                with suppress(KafkaException):
                    deleted.result(ADMIN_TIMEOUT_S)
