"""Gives every test suite the fixture `headwater_broker`: one real broker for the whole run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headwater.testing import Broker


@pytest.fixture(scope="session")
def headwater_broker() -> Iterator["Broker"]:
    """A broker on a free port; its `bootstrap_servers` is what a client needs. Tests keep apart by their topics."""
    # Imported late: this module is loaded in every test run beside which Headwater happens to be installed.
    from headwater.testing import Broker  # noqa: PLC0415

    with Broker() as broker:
        yield broker
