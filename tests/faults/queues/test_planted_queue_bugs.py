"""The checks of share groups can fail: each bug that breaks a promise is found from the history of the clients."""

from pathlib import Path

import pytest

from tests.faults.histories.cases import FaultyBroker
from tests.faults.histories.load import NotInTime
from tests.faults.queues.load import SETTINGS, QueueLoad
from tests.faults.queues.planted import DELAY_TEXTS, SHARE_TEXTS

pytestmark = pytest.mark.slow

# A broker with a bug may keep its clients from making progress, so waits are short.
WAIT_S = 20.0
LIMIT_S = 8.0


@pytest.mark.parametrize("name", SHARE_TEXTS)
def test_a_broker_that_breaks_a_promise_of_queues_is_found_out(tmp_path: Path, name: str) -> None:
    with (
        FaultyBroker(tmp_path / "data", name, SETTINGS) as broker,
        QueueLoad(broker, tmp_path / "history", limit_s=WAIT_S) as load,
    ):
        topic = load.queue("orders", "billing", 1, headwater_ttl_enable="true")
        try:
            load.start("producer", topic, per_second=200, ttl_ms=700)
            for _ in range(3):
                load.share("billing")
            load.wait_for_more("settle", 400)
        except NotInTime:
            # A client without progress proves nothing.
            pass
        found = load.finish(LIMIT_S)
    assert any(each.invariant == "I14" and SHARE_TEXTS[name] in each.text for each in found), [*map(str, found)]


@pytest.mark.parametrize("name", DELAY_TEXTS)
def test_a_broker_that_breaks_a_promise_of_delays_is_found_out(tmp_path: Path, name: str) -> None:
    with (
        FaultyBroker(tmp_path / "data", name, SETTINGS) as broker,
        QueueLoad(broker, tmp_path / "history", limit_s=WAIT_S) as load,
    ):
        topic = load.delays("reminders")
        try:
            load.start("watcher", topic)
            load.start("delayer", topic)
            load.start("delayer", topic, transactional_id="delayer")
            load.wait_for_more("cancel", 1)
            load.wait_for_more("decide", 6)
        except NotInTime:
            pass
        found = load.finish(LIMIT_S)
    assert any(each.invariant == "I15" and DELAY_TEXTS[name] in each.text for each in found), [*map(str, found)]
