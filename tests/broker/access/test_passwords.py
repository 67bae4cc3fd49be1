"""Passwords of PLAIN: verified with what the catalog has and with a setting, and remembered."""

from pathlib import Path

from headwater.broker.access.passwords import Passwords, listed_users
from headwater.security.mechanisms import Failure, Success, Work
from headwater.security.principals import user
from tests.support.broker.embedded_broker import running

LISTED = listed_users('PlainLoginModule required username="broker" password="x" user_bob="rum" user_ann="gin";')


def verify(passwords: Passwords, name: str, password: str) -> Success | Failure:
    step = passwords.verify(name, password, LISTED)
    assert isinstance(step, Work), "the first time is work for a thread"
    return step.run()


async def test_a_password_of_the_catalog_or_of_the_setting_is_right(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.access.users.set_password("ann", "tea")
        passwords = Passwords(broker.access.users)

        assert verify(passwords, "ann", "tea") == Success(user("ann"))
        assert verify(passwords, "ann", "gin") == Success(user("ann"))
        assert verify(passwords, "bob", "rum") == Success(user("bob"))
        for name, password in (("ann", "rum"), ("bob", "tea"), ("nobody", "tea"), ("nobody", ""), ("broker", "x")):
            assert verify(passwords, name, password) == Failure("unknown user or wrong password", name)


async def test_a_right_password_is_remembered_until_it_changes_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.access.users.set_password("ann", "tea")
        passwords = Passwords(broker.access.users)
        verify(passwords, "ann", "tea")
        verify(passwords, "ann", "wrong")

        assert passwords.verify("ann", "tea", LISTED) == Success(user("ann"))
        assert verify(passwords, "ann", "wrong") == Failure("unknown user or wrong password", "ann")

        await broker.access.users.set_password("ann", "wrong")
        assert verify(passwords, "ann", "tea") == Failure("unknown user or wrong password", "ann")
        # The setting lists another password for ann than before.
        verify(passwords, "bob", "rum")
        assert isinstance(passwords.verify("bob", "rum", {}), Work)
