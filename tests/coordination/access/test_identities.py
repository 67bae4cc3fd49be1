"""The part of the catalog's machine that knows users and delegation tokens."""

from collections.abc import Sequence

import pytest

from headwater.broker.catalog import access_format
from headwater.coordination.access.events import (
    DelegationToken,
    DelegationTokenRemoved,
    IdentityEvent,
    SaltSecret,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.coordination.access.identities import RENEWERS_MAX, SALT_BYTES_MAX, USER_LENGTH_MAX, IdentityMachine
from headwater.errors import ErrorCode, Refusal
from headwater.security.principals import Principal, user
from headwater.security.scram_keys import ScramKeys

MECHANISM, OTHER = "SCRAM-SHA-256", "SCRAM-SHA-512"
KEYS = ScramKeys(b"salt", bytes(32), bytes(range(32)), 4096)
ANN, BOB, EVE = user("ann"), user("bob"), user("eve")
TOKEN = DelegationToken("id", b"fingerprint", ANN, ANN, (BOB,), 1000, 2000, 5000, {MECHANISM: KEYS})


def machine_of(*events: IdentityEvent, users_max: int = 2, tokens_max: int = 2) -> IdentityMachine:
    machine = IdentityMachine(users_max=users_max, tokens_max=tokens_max)
    for event in events:
        machine.apply(event)
    return machine


def test_a_credential_is_set_replaced_and_removed() -> None:
    machine = machine_of()
    first, second = ScramCredential("ann", MECHANISM, KEYS), ScramCredential("ann", MECHANISM, KEYS._replace(salt=b"x"))

    assert machine.decide_set_credential("ann", MECHANISM, KEYS) == [first]
    assert machine.credentials == {}, "deciding must not mutate"
    for event in (first, second):
        machine.apply(event)
    assert machine.credentials == {("ann", MECHANISM): second}
    assert machine.users == {"ann": 1}

    for event in machine.decide_remove_credential("ann", MECHANISM):
        machine.apply(event)
    assert (machine.credentials, machine.users) == ({}, {})


@pytest.mark.parametrize(
    ("name", "keys", "code"),
    [
        ("", KEYS, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("x" * (USER_LENGTH_MAX + 1), KEYS, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("a\nb", KEYS, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("ann", KEYS._replace(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("ann", KEYS._replace(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("ann", KEYS._replace(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("ann", KEYS._replace(salt=bytes(SALT_BYTES_MAX + 1)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("ann", KEYS._replace(stored_key=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_credential_that_is_not_safe_is_refused(name: str, keys: ScramKeys, code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        machine_of().decide_set_credential(name, MECHANISM, keys)
    assert refused.value.code is code


def test_users_are_bounded_and_those_that_exist_may_still_change() -> None:
    machine = machine_of(ScramCredential("ann", MECHANISM, KEYS))

    machine.decide_set_credential("bob", MECHANISM, KEYS)
    with pytest.raises(Refusal, match=r"2 users already \(headwater\.users\.max\)"):
        machine.decide_set_credential("bob", MECHANISM, KEYS, added_count=1)
    machine.decide_set_credential("ann", MECHANISM, KEYS, added_count=1)


def test_a_credential_that_does_not_exist_is_not_removed() -> None:
    with pytest.raises(Refusal) as refused:
        machine_of().decide_remove_credential("ann", MECHANISM)
    assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND


def test_the_creation_of_a_token_removes_those_that_have_expired() -> None:
    machine = machine_of(TOKEN, TOKEN._replace(id="old", fingerprint=b"old", expires_ms=1500))
    new = TOKEN._replace(id="new", fingerprint=b"new")

    assert machine.decide_create_token(new, now_ms=1500) == [DelegationTokenRemoved("old"), new]
    with pytest.raises(Refusal, match=r"2 delegation tokens already \(headwater\.delegation\.tokens\.max\)"):
        machine.decide_create_token(new, now_ms=1499)


@pytest.mark.parametrize(
    ("renewers", "code"),
    [
        ([Principal("Group", "all")], ErrorCode.INVALID_PRINCIPAL_TYPE),
        ([BOB] * (RENEWERS_MAX + 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_renewers_are_users_and_few(renewers: Sequence[Principal], code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        machine_of().decide_create_token(TOKEN._replace(renewers=tuple(renewers)), 0)
    assert refused.value.code is code


@pytest.mark.parametrize("by", [ANN, BOB])
def test_owner_and_renewer_move_the_end_of_a_token_up_to_its_longest_life(by: Principal) -> None:
    machine = machine_of(TOKEN)

    assert machine.decide_renew_token(b"fingerprint", by, 3000, 1999) == [TOKEN._replace(expires_ms=3000)]
    assert machine.decide_renew_token(b"fingerprint", by, 9000, 1999) == [TOKEN._replace(expires_ms=5000)]
    assert machine.decide_remove_token(b"fingerprint", by) == [DelegationTokenRemoved("id")]


@pytest.mark.parametrize(
    ("fingerprint", "by", "now_ms", "code"),
    [
        (b"other", ANN, 0, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (b"fingerprint", EVE, 0, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (b"fingerprint", ANN, 2000, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_a_token_is_not_renewed_by_others_or_after_its_end(
    fingerprint: bytes, by: Principal, now_ms: int, code: ErrorCode
) -> None:
    with pytest.raises(Refusal) as refused:
        machine_of(TOKEN).decide_renew_token(fingerprint, by, 3000, now_ms)
    assert refused.value.code is code


def test_a_token_is_found_by_its_fingerprint_until_it_is_removed() -> None:
    machine = machine_of(TOKEN, TOKEN._replace(expires_ms=3000))
    assert machine.tokens_by_fingerprint[b"fingerprint"].expires_ms == 3000

    machine.apply(DelegationTokenRemoved("id"))

    assert (machine.tokens, machine.tokens_by_fingerprint) == ({}, {})


@pytest.mark.parametrize(
    "event",
    [
        ScramCredential("ann", MECHANISM, KEYS),
        ScramCredentialRemoved("ann", MECHANISM),
        SaltSecret(b"secret"),
        TOKEN,
        TOKEN._replace(renewers=(), keys={MECHANISM: KEYS, OTHER: KEYS}),
        DelegationTokenRemoved("id"),
    ],
)
def test_an_event_survives_as_a_record_of_the_catalog(event: IdentityEvent) -> None:
    assert access_format.decode(*access_format.encode(event)) == event


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"access/token/id", b"{}"),
        (b"access/token/id", b"[]"),
        (b"access/token/id", b'{"fingerprint": 7}'),
        (b"access/salt-secret", b"7"),
        (b'access/scram/["ann","SCRAM-SHA-256"]', b"{}"),
    ],
)
def test_a_record_that_no_broker_writes_is_an_error(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        access_format.decode(key, value)


def test_no_repr_of_an_event_has_a_key() -> None:
    secret = ScramKeys(b"salt", b"planted", b"planted", 4096)
    events = [
        ScramCredential("ann", MECHANISM, secret),
        SaltSecret(b"planted"),
        TOKEN._replace(keys={MECHANISM: secret}),
    ]

    assert "planted" not in repr(events)
