"""Everything that HTTP offers, by clients without, with wrong, and with too few rights. A new operation is walked by
itself; one that takes a body or lets everybody in has an entry here."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headwater.broker_security import BrokerSecurity
from headwater.listeners.http.operation import Operation
from headwater.listeners.http.route_table import load_areas
from headwater.testing import Broker
from tests.support.http.client import HttpClient, basic

# The registry's API is Confluent's, whose rights have a test of their own (`registry/test_rights.py`).
REGISTRY = "registry"
OPERATIONS = [each for area in load_areas() for each in area.operations]
WITH_OWN_RULES = {each.name for area in load_areas() if area.name == REGISTRY for each in area.operations}
PARAMETERS = {"partition": "0"}
RULE = {"principal": "User:other", "resource_type": "topic", "name": "t", "operation": "read"}
GRANT = {"role": "reader", "principal": "User:other", "on": "t"}
PRODUCER = {"producer_id": 1, "epoch": 0}
BODIES: dict[str, object] = {
    "POST /v1/topics": {"name": "new"},
    "PATCH /v1/topics/{topic}/partitions": {"partitions": 2},
    "PATCH /v1/topics/{topic}/config": {"set": {"retention.ms": "1"}},
    "POST /v1/topics/{topic}/partitions/{partition}/truncate": {"offset": 0},
    "POST /v1/topics/{topic}/records": {"records": [{"value": "x"}]},
    "PUT /v1/groups/{group}/offsets": {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]},
    "POST /v1/transactions": {"transactional_id": "t"},
    "POST /v1/transactions/{transactional_id}/records": {**PRODUCER, "topic": "t", "records": [{"value": "x"}]},
    "POST /v1/transactions/{transactional_id}/ack": {**PRODUCER, "group": "g", "receipts": ["x"]},
    "POST /v1/transactions/{transactional_id}/reject": {**PRODUCER, "group": "g", "receipts": ["x"]},
    "POST /v1/transactions/{transactional_id}/commit": PRODUCER,
    "POST /v1/transactions/{transactional_id}/abort": PRODUCER,
    "PUT /v1/users/{user}": {"password": "x"},
    "POST /v1/acls": RULE,
    "POST /v1/acls/delete": {"principal": "User:nobody"},
    "POST /v1/roles": {"name": "r", "permissions": {}},
    "POST /v1/grants": GRANT,
    "POST /v1/grants/revoke": GRANT,
    "PATCH /v1/config": {"set": {"num.partitions": "2"}},
}
# Lists show what the client may describe: nothing.
EMPTY_LISTS = {
    "GET /v1/topics": {"topics": [], "next": None},
    "GET /v1/groups": {"groups": [], "next": None},
    "GET /v1/transactions": {"transactions": [], "next": None},
}
OPEN = {"GET /health/live", "GET /health/ready", "GET /v1", "GET /v1/openapi.json"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users={"ann": "a", "ben": "b"}, authorizer=True)
    with Broker(security=security, http=True) as broker:
        with HttpClient(broker, basic("ann", "a")) as ann:
            ann.post("/v1/topics", {"name": "t", "partitions": 1})
            ann.post("/v1/transactions", {"transactional_id": "t"})
        yield broker


def path_of(operation: Operation) -> str:
    path = operation.path
    for name in operation.path_types:
        path = path.replace("{" + name + "}", PARAMETERS.get(name, "t"))
    return path


def ask(client: HttpClient, operation: Operation, path: str | None = None, **headers: str) -> int:
    body = BODIES.get(operation.name)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.ask(operation.method, path_of(operation) if path is None else path, body, given).status


def disguises(path: str) -> Iterator[str]:
    """Other spellings of a path, of which some gateways think less than the server behind them."""
    yield f"{path}/"
    yield f"/{path}"
    yield path.replace("/", "//", 2)
    yield f"{path}/extra"
    yield f"{path}/..;/health/live"
    yield f"/health/live/../..{path}"
    yield f"/health/live/%2e%2e/%2e%2e{path}"
    yield path.replace("/", "%2f")
    yield f"{path}%00"
    yield f"{path}%20"
    yield f"{path}.json"
    yield f"{path};x=y"
    yield f"{path}?health/live"
    yield path.upper()
    yield "/" + quote(path[1:], safe="/").replace("v1", "%76%31")


def test_bodies_are_those_that_operations_take() -> None:
    with_bodies = {each.name for each in OPERATIONS if each.body_type is not None}
    assert with_bodies - WITH_OWN_RULES == set(BODIES)
    assert {each.name for each in OPERATIONS if each.is_open} == OPEN


GUARDED = [each for each in OPERATIONS if not each.is_open]


@pytest.mark.parametrize("operation", GUARDED, ids=lambda each: each.name)
class TestEveryOperation:
    def test_needs_credentials(self, broker: Broker, operation: Operation) -> None:
        with HttpClient(broker) as stranger:
            assert ask(stranger, operation) == 401
            assert ask(stranger, operation, **basic("ben", "wrong")) == 401
            for spelling in disguises(path_of(operation)):
                assert ask(stranger, operation, spelling) in (400, 401), spelling
            for name in ("x_http_method_override", "x_original_url", "x_rewrite_url", "x_forwarded_user"):
                assert ask(stranger, operation, "/v1/topics", **{name: "/health/live"}) == 401
                assert ask(stranger, operation, **{name: "GET"}) == 401

    def test_is_possible_with_all_rights(self, broker: Broker, operation: Operation) -> None:
        if operation.method != "DELETE":
            with HttpClient(broker, basic("ann", "a")) as ann:
                assert ask(ann, operation) not in (401, 403, 500)


@pytest.mark.parametrize(
    "operation", [each for each in GUARDED if each.name not in WITH_OWN_RULES], ids=lambda each: each.name
)
def test_every_operation_needs_rights(broker: Broker, operation: Operation) -> None:
    with HttpClient(broker, basic("ben", "b")) as ben:
        if operation.name in EMPTY_LISTS:
            assert ben.get(path_of(operation)).json == EMPTY_LISTS[operation.name]
            return
        assert ask(ben, operation) == 403
        for spelling in disguises(path_of(operation)):
            assert ask(ben, operation, spelling) in (400, 403, 404, 405), spelling


def test_a_client_without_rights_cannot_tell_what_there_is(broker: Broker) -> None:
    with HttpClient(broker, basic("ben", "b")) as ben:
        for path in ("/v1/topics/%s", "/v1/topics/%s/config", "/v1/topics/%s/partitions/0/records"):
            known, unknown = ben.get(path % "t"), ben.get(path % "u")
            assert known.status == unknown.status == 403
            assert known.body.replace(b"'t'", b"'u'") == unknown.body
