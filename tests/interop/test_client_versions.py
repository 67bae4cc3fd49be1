"""Clients in their newest versions, and Java's that are still in wide use; `make interop-matrix` tries all versions."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.matrix.declaration import MATRIX, Entry
from tests.interop.matrix.trial import BROKER_SETTINGS, OK, attempt
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("matrix")
    with BrokerProcess(directory / "data", BROKER_SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize("entry", [entry for entry in MATRIX if entry.is_quick], ids=lambda entry: entry.slug)
def test_a_client_does_what_most_programs_do(
    broker: BrokerProcess, new_topic: Callable[[str], str], entry: Entry
) -> None:
    result = attempt(entry, broker.bootstrap_servers, new_topic("version"))

    if result.is_skipped:
        pytest.skip(result.outcome)
    assert result.outcome == OK
