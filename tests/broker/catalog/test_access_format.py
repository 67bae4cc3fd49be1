"""Events of access as records of the catalog."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.catalog.format import CatalogFormat, DamagedCatalog
from headwater.coordination.access.events import (
    AclAdded,
    AclRemoved,
    RoleCreated,
    RoleDeleted,
    RoleGranted,
    RoleRevoked,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.coordination.catalog.events import Event
from headwater.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from headwater.security.roles import Role, RoleGrant
from headwater.security.scram_keys import ScramKeys

texts = st.text(max_size=20)
role_names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
acls = st.builds(
    Acl,
    st.sampled_from(ResourceType),
    texts,
    st.sampled_from(PatternType),
    texts,
    texts,
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)
grants = st.builds(RoleGrant, role_names, texts, st.sampled_from(ResourceType), texts, st.sampled_from(PatternType))
permissions = st.dictionaries(
    st.sampled_from(ResourceType), st.frozensets(st.sampled_from(Operation), max_size=4), max_size=3
)
keys = st.binary(max_size=40)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(AclAdded, acls),
    st.builds(AclRemoved, acls),
    st.builds(RoleCreated, st.builds(Role, role_names, permissions)),
    st.builds(RoleDeleted, role_names),
    st.builds(RoleGranted, grants),
    st.builds(RoleRevoked, grants),
    st.builds(ScramCredential, texts, texts, st.builds(ScramKeys, keys, keys, keys, st.integers(1, 2**31))),
    st.builds(ScramCredentialRemoved, texts, texts),
)


@given(events)
def test_an_event_survives_the_round_trip_through_its_record(event: Event) -> None:
    assert CatalogFormat().decode(*CatalogFormat().encode(event)) == event


@given(acls, grants, role_names)
def test_what_removes_has_the_key_of_what_it_removes(acl: Acl, grant: RoleGrant, name: str) -> None:
    encode = CatalogFormat().encode
    for added, removed in (
        (AclAdded(acl), AclRemoved(acl)),
        (RoleGranted(grant), RoleRevoked(grant)),
        (RoleCreated(Role(name, {})), RoleDeleted(name)),
    ):
        key, value = encode(added)
        assert value is not None
        assert encode(removed) == (key, None)


def test_a_record_of_a_newer_version_decodes_to_none() -> None:
    assert CatalogFormat().decode(b"access/from the future/1", b"{}") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"access/acl/", b"{}"),
        (b"access/acl/[]", b"{}"),
        (b"access/acl/{}", None),
        (b'access/acl/["TOPIC","orders","LITERAL","User:ann","*","FLY","ALLOW"]', b"{}"),
        (b'access/acl/["TOPIC",7,"LITERAL","User:ann","*","READ","ALLOW"]', b"{}"),
        (b"access/role/auditor", b"[]"),
        (b"access/role/auditor", b"{"),
        (b"access/role/auditor", b'{"TOPIC":"READ"}'),
        (b"access/role/auditor", b'{"TOPIC":[7]}'),
        (b"access/role/auditor", b'{"TOPIC":["FLY"]}'),
        (b"access/role/auditor", b'{"MOON":["READ"]}'),
        (b"access/role/\xff", b"{}"),
        (b'access/grant/["reader","User:ann","TOPIC","orders"]', b"{}"),
        (b'access/grant/["reader","User:ann","MOON","orders","LITERAL"]', b"{}"),
        (b'access/scram/["ann"]', None),
        (b'access/scram/["ann","SCRAM-SHA-256"]', b"{}"),
        (
            b'access/scram/["ann","SCRAM-SHA-256"]',
            b'{"salt":"?","stored_key":"","server_key":"","iterations":4096}',
        ),
    ],
)
def test_an_unreadable_record_stops_the_start_and_is_named(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DamagedCatalog, match="catalog's record"):
        CatalogFormat().decode(key, value)
