"""Records are copied exactly once and in order although copiers and the broker are killed repeatedly."""

from pathlib import Path

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.transactions.copiers import GROUP_PROTOCOLS, SETTINGS, Copiers
from tests.support.transactions.kills import check_transactions, copy_amid_kills, create_topics

pytestmark = pytest.mark.slow

# The steps of a transaction at which a copier or the broker is killed.
STEPS = ("begun", "halfway", "sent", "committed")


@pytest.mark.parametrize("group_protocol", GROUP_PROTOCOLS)
def test_every_record_is_copied_once_although_copiers_and_broker_are_killed(
    tmp_path: Path, group_protocol: str
) -> None:
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        Copiers(broker, group_protocol, "source", "target") as copiers,
    ):
        create_topics(broker, "source", "target")
        check_transactions(copiers, copy_amid_kills(broker, copiers, STEPS))
