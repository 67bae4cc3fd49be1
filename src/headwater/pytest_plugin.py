"""A pytest plugin with the fixtures `headwater_broker` and `headwater_secured_broker`: real brokers for the whole test
run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headwater.testing import Broker


@pytest.fixture(scope="session")
def headwater_broker() -> Iterator["Broker"]:
    """A broker on a free port; give its `bootstrap_servers` to a client. All tests share it, so use different
    topics."""
    # Imported late: pytest loads this plugin in every environment where Headwater is installed, used or not.
    from headwater.testing import Broker  # noqa: PLC0415

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def headwater_secured_broker() -> Iterator["Broker"]:
    """A broker that wants TLS and a password; `client_settings()` has all that a client needs. All tests share it."""
    from headwater.testing import Broker  # noqa: PLC0415

    with Broker(security="SASL_SSL") as broker:
        yield broker
