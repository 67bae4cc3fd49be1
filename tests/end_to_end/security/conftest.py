"""One secured broker process for each test file; each test has topics and users of its own."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from tests.support.security.secured_broker import SecuredBroker, secured_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def topic(broker: SecuredBroker) -> str:
    """A new topic with one partition."""
    return broker.create_topic(f"topic-{uuid4().hex}")


@pytest.fixture
def new_user(broker: SecuredBroker) -> Callable[..., tuple[str, str]]:
    """Makes users that have the roles, and gives their names and passwords."""

    def make(*roles: str) -> tuple[str, str]:
        # Letters alone, as `ssl.principal.mapping.rules` of these brokers want them.
        user = "".join(chr(ord("a") + int(digit, 16)) for digit in uuid4().hex)
        password = uuid4().hex
        broker.set_password(user, password)
        for role in roles:
            broker.grant(user, role)
        return user, password

    return make
