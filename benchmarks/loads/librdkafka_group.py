"""A group of librdkafka consumers in one process: time from a membership change until all have their partitions.

In the classic protocol librdkafka sends a heartbeat every 100 to 500 ms however short the interval is, and that shows.
Killed members are not measured, because the time of a killed client's last heartbeat is unknown outside of it.
"""

import time
from collections.abc import Callable, Mapping
from threading import Thread

from confluent_kafka import Consumer, TopicPartition

from benchmarks.loads.members import GroupPlan
from benchmarks.loads.rebalance import PHASE_TIMEOUT_S, is_settled

POLL_PAUSE_S = 0.001
SETTLED_PAUSE_S = 0.5


class _Member:
    def __init__(self, plan: GroupPlan, protocol: str) -> None:
        self.owned: frozenset[int] = frozenset()
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": plan.address,
            "group.id": plan.group_id,
            "enable.auto.commit": False,
            "group.protocol": protocol,
        }
        if protocol == "classic":
            settings["partition.assignment.strategy"] = "range"
            settings["session.timeout.ms"] = plan.session_timeout_ms
            settings["heartbeat.interval.ms"] = plan.heartbeat_interval_ms
        self.consumer = Consumer(settings)
        # Connects and learns who leads the partitions.
        self.consumer.list_topics(plan.topic, timeout=10)

    def join(self, topic: str) -> None:
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer
        self.owned |= {each.partition for each in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer
        self.owned -= {each.partition for each in partitions}


def rebalance(ready: Callable[[], None], plan: GroupPlan, protocol: str, members: int) -> Mapping[str, float]:
    """Seconds for each phase."""
    group = [_Member(plan, protocol) for _ in range(members)]
    newcomer = _Member(plan, protocol)
    ready()
    seconds: dict[str, float] = {}

    started = time.monotonic()
    for member in group:
        member.join(plan.topic)
    seconds["all join"] = _settle(group, plan) - started

    _poll_for(group, SETTLED_PAUSE_S)
    started = time.monotonic()
    newcomer.join(plan.topic)
    group.append(newcomer)
    seconds["one joins"] = _settle(group, plan) - started

    _poll_for(group, SETTLED_PAUSE_S)
    leaving = group.pop(members // 2)
    started = time.monotonic()
    closing = Thread(target=leaving.consumer.close)
    closing.start()
    seconds["one leaves"] = _settle(group, plan) - started
    closing.join()
    for member in group:
        member.consumer.close()
    return seconds


def _settle(group: list[_Member], plan: GroupPlan) -> float:
    """Poll all members until each has its partitions; returns the time."""
    deadline = time.monotonic() + PHASE_TIMEOUT_S
    while time.monotonic() < deadline:
        _poll(group)
        if is_settled([member.owned for member in group], plan.partitions):
            return time.monotonic()
        time.sleep(POLL_PAUSE_S)
    raise TimeoutError(f"the group is not settled after {PHASE_TIMEOUT_S:.0f} s")


def _poll_for(group: list[_Member], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        _poll(group)
        time.sleep(POLL_PAUSE_S)


def _poll(group: list[_Member]) -> None:
    for member in group:
        message = member.consumer.poll(0)
        if message is not None and message.error() is not None:
            raise RuntimeError(str(message.error()))
