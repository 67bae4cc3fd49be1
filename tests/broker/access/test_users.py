"""Users: credentials that clients set, passwords, users that do not exist, the first user."""

from pathlib import Path

import pytest

from headwater.broker.access.users import ADMIN, CredentialInfo, Deletion, Upsertion, upsertions_of
from headwater.errors import ConfigError, ErrorCode
from headwater.password_file import read_password
from headwater.security.scram import SALT_BYTES, is_password
from headwater.security.scram_keys import MECHANISMS
from tests.support.broker.embedded_broker import crash, running, start

SHA_256, SHA_512 = MECHANISMS.values()
UPSERTION = Upsertion("ann", 1, 8192, b"salt", bytes(32))


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_password_survives_a_restart_and_is_nowhere_in_the_files(tmp_path: Path, is_clean: bool) -> None:
    broker = start(tmp_path)
    await broker.access.users.set_password("ann", "planted secret")
    unknown = broker.access.users.account("nobody", SHA_256)
    await (broker.stop() if is_clean else crash(broker))

    async with running(tmp_path) as broker:
        for mechanism in MECHANISMS.values():
            assert is_password(mechanism.digest, b"planted secret", broker.access.users.account("ann", mechanism).keys)
        assert broker.access.users.account("nobody", SHA_256) == unknown
    assert not any(b"planted" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


async def test_credentials_are_changed_and_described(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        users = broker.access.users
        assert await users.alter([UPSERTION, UPSERTION._replace(mechanism=2, salted_password=bytes(64))]) == {
            "ann": None
        }
        await users.alter([UPSERTION._replace(user="bob")])

        assert users.describe() == {
            "ann": [CredentialInfo(1, 8192), CredentialInfo(2, 8192)],
            "bob": [CredentialInfo(1, 8192)],
        }
        assert users.describe(["bob", "eve"]) == {"bob": [CredentialInfo(1, 8192)], "eve": []}

        await users.alter([], [Deletion("ann", 1), Deletion("bob", 1)])
        assert users.describe() == {"ann": [CredentialInfo(2, 8192)]}


async def test_all_changes_of_a_user_are_made_or_none_and_other_users_do_not_suffer(tmp_path: Path) -> None:
    wrong = {
        "mechanism": (UPSERTION._replace(user="mechanism", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        "few": (UPSERTION._replace(user="few", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        "many": (UPSERTION._replace(user="many", iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        "length": (UPSERTION._replace(user="length", salted_password=b"x"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        "salt": (UPSERTION._replace(user="salt", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        "": (UPSERTION._replace(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    }
    async with running(tmp_path) as broker:
        # A good one of the same user comes with each.
        good = [UPSERTION._replace(user=name, mechanism=2, salted_password=bytes(64)) for name in wrong]
        outcomes = await broker.access.users.alter([*(each for each, _ in wrong.values()), *good, UPSERTION])

        assert {name: outcome and outcome.code for name, outcome in outcomes.items()} == {
            **{name: code for name, (_, code) in wrong.items()},
            "ann": None,
        }
        assert list(broker.access.users.describe()) == ["ann"]


async def test_a_credential_is_changed_once_in_a_request(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for upsertions, deletions in (([UPSERTION] * 2, []), ([UPSERTION], [Deletion("ann", 1)])):
            outcome = (await broker.access.users.alter(upsertions, deletions))["ann"]
            assert outcome is not None
            assert outcome.code is ErrorCode.DUPLICATE_RESOURCE


async def test_users_of_one_request_are_bounded(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.users.max": "2"}) as broker:
        outcomes = await broker.access.users.alter([UPSERTION._replace(user=name) for name in ("ann", "bob", "eve")])

        assert [outcome and outcome.code for outcome in outcomes.values()] == [None, None, ErrorCode.POLICY_VIOLATION]


async def test_a_user_that_does_not_exist_looks_like_one_that_does(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        users = broker.access.users
        assert len(users.account("nobody", SHA_256).keys.salt) == SALT_BYTES
        await users.alter([UPSERTION])

        unknown = users.account("nobody", SHA_256).keys

        assert (len(unknown.salt), unknown.iterations) == (len(b"salt"), 8192)
        assert unknown == users.account("nobody", SHA_256).keys
        assert unknown.salt != users.account("nobody2", SHA_256).keys.salt


async def test_the_first_user_comes_from_a_file_and_only_where_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    settings = {"headwater.admin.password.file": str(file)}
    for password in ("first", "second"):
        file.write_text(f"{password}\n")
        async with running(tmp_path / "data", settings) as broker:
            await broker.start()
            keys = broker.access.users.account(ADMIN, SHA_512).keys
            assert is_password("sha512", b"first", keys)


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff", b"\0", b"x" * 1025])
def test_a_file_without_a_password_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "password"
    with pytest.raises(ConfigError, match=r"some\.setting: .*password: No such file"):
        read_password(file, "some.setting")
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"some\.setting: .*password"):
        read_password(file, "some.setting")


def test_the_credentials_of_a_password_never_have_the_same_salt() -> None:
    salts = [each.salt for _ in range(2) for each in upsertions_of("ann", "tea")]

    assert len(set(salts)) == 4
