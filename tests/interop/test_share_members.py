"""The Java client, franz-go and librdkafka in one share group, over kills of the broker and of members: each record is
accepted once, or a dead letter."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.queues.load import SETTINGS, QueueLoad
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop

RECORDS = 60_000
KILLS = 5


def test_members_of_three_clients_share_a_topic(
    tmp_path: Path, java_command: Sequence[str], go_command: Sequence[str]
) -> None:
    programs = {"java": [*java_command, "sharer"], "franz": [*go_command, "sharer"]}
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        QueueLoad(broker, tmp_path / "history", limit_s=180) as load,
    ):
        topic = load.queue("orders", "billing", 4)
        producer = load.start("producer", topic, per_second=10_000, at_a_time=250)
        members = [load.share("billing", command=programs[name]) for name in ("java", "java", "franz", "franz")]
        load.share("billing", is_client=True)
        for kill in range(KILLS):
            load.wait_until("send", (kill + 1) * RECORDS // (KILLS + 2))
            load.wait_for_more("settle", 5)
            load.restart()
            chosen = members.pop(0)
            load.pause_beyond_the_lock(chosen)
            load.replace(chosen)
            members.append(load.clients[-1])
        load.wait_until("send", RECORDS)
        load.leave(producer)
        found = load.finish()
    assert not found, "\n".join(map(str, found))
