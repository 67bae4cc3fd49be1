"""Who may do what with the REST proxy: every route with no rights, and each right with what it allows."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.broker_security import BrokerSecurity
from headwater.listeners.http.operation import Operation
from headwater.listeners.http.proxy.area import AREA
from headwater.testing import Broker
from tests.support.http.client import Answer, HttpClient, basic
from tests.support.http.rest_consumer import SETTINGS

INSTANCE = "/consumers/{group}/instances/{instance}"
PLACES = {"partitions": [{"topic": "t", "partition": 0}]}
BODIES: dict[str, Any] = {
    "POST /topics/{topic}": {"records": [{"value": "YQ=="}]},
    "POST /topics/{topic}/partitions/{partition}": {"records": [{"value": "YQ=="}]},
    "POST /consumers/{group}": {},
    f"POST {INSTANCE}/subscription": {"topics": ["t"]},
    f"POST {INSTANCE}/assignments": PLACES,
    f"POST {INSTANCE}/positions": {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]},
    f"POST {INSTANCE}/positions/beginning": PLACES,
    f"POST {INSTANCE}/positions/end": PLACES,
    f"POST {INSTANCE}/offsets": {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]},
    f"GET {INSTANCE}/offsets": PLACES,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    users = {"ann": "a", "ben": "b", "eve": "e"}
    security = BrokerSecurity("SASL_PLAINTEXT", users=users, authorizer=True)
    with Broker(SETTINGS, security=security, http=True) as broker:
        with HttpClient(broker, basic("ann", "a")) as ann:
            for topic in ("t", "hidden"):
                assert ann.post("/v1/topics", {"name": topic, "partitions": 1}).status == 201
            assert ann.post("/consumers/g", {"name": "i"}).status == 200
        yield broker


@pytest.fixture
def ann(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker, basic("ann", "a")) as client:
        yield client


@pytest.fixture
def ben(broker: Broker, ann: HttpClient) -> Iterator[HttpClient]:
    """May do what a test gives him the right to."""
    with HttpClient(broker, basic("ben", "b")) as client:
        yield client
    ann.post("/v1/acls/delete", {"principal": "User:ben"})


def allow(ann: HttpClient, resource_type: str, name: str, operation: str) -> None:
    rule = {"principal": "User:ben", "resource_type": resource_type, "name": name, "operation": operation}
    assert ann.post("/v1/acls", rule).status < 300


def ask(client: HttpClient, operation: Operation) -> Answer:
    path = operation.path
    for name, value in {"topic": "t", "partition": "0", "group": "g", "instance": "i"}.items():
        path = path.replace("{" + name + "}", value)
    return client.ask(operation.method, path, BODIES.get(operation.name))


@pytest.mark.parametrize("operation", AREA.operations, ids=lambda each: each.name)
def test_without_rights_nothing_is_done_or_shown(broker: Broker, operation: Operation) -> None:
    with HttpClient(broker, basic("eve", "e")) as eve:
        answered = ask(eve, operation)
    if operation.name == "GET /brokers":
        assert answered.status == 200
    elif operation.name == "GET /topics":
        assert (answered.status, answered.json) == (200, [])
    else:
        assert (answered.status, answered.json["error_code"]) == (403, 40301), answered.body
    with HttpClient(broker) as stranger:
        answered = ask(stranger, operation)
        assert (answered.status, answered.json["error_code"]) == (401, 40101)


def test_a_client_without_rights_cannot_tell_what_there_is(broker: Broker) -> None:
    with HttpClient(broker, basic("eve", "e")) as eve:
        for method, path in (
            ("GET", "/topics/%s"),
            ("GET", "/topics/%s/partitions/7"),
            ("GET", "/topics/%s/partitions/0/offsets"),
            ("POST", "/topics/%s"),
            ("POST", "/topics/%s/partitions/9"),
            ("GET", "/consumers/%s/instances/i/records"),
        ):
            body = {"records": [{"value": None}]} if method == "POST" else None
            known, unknown = eve.ask(method, path % "t", body), eve.ask(method, path % "u", body)
            assert known.status == unknown.status == 403
            assert known.body.replace(b"'t'", b"'u'") == unknown.body


def test_rights_to_topics(ann: HttpClient, ben: HttpClient) -> None:
    record = {"records": [{"value": "YQ=="}]}
    allow(ann, "topic", "t", "describe")
    assert ben.get("/topics").json == ["t"]
    assert ben.get("/topics/t").json["configs"] == {}
    assert ben.get("/topics/hidden").status == 403
    assert ben.post("/topics/t", record).status == 403
    allow(ann, "topic", "t", "describe_configs")
    assert ben.get("/topics/t").json["configs"]["cleanup.policy"] == "delete"
    allow(ann, "topic", "t", "write")
    assert ben.post("/topics/t", record).status == 200
    assert ben.post("/topics/hidden", record).status == 403


def test_rights_to_schemas_are_those_to_their_topics(ann: HttpClient, ben: HttpClient) -> None:
    avro = {"content_type": "application/vnd.kafka.avro.v2+json"}
    secret = '{"type": "record", "name": "S", "fields": [{"name": "secret", "type": "null"}]}'
    body = {"value_schema": secret, "records": [{"value": {"secret": None}}]}
    secret_id = ann.post("/topics/hidden", body, **avro).json["value_schema_id"]
    for operation in ("write", "read"):
        allow(ann, "topic", "t", operation)
    allow(ann, "group", "g", "read")

    by_id = {"value_schema_id": secret_id, "records": [{"value": {"secret": None}}]}
    assert ben.post("/topics/t", by_id, **avro).json["error_code"] == 40301
    # Nor is it shown by a record that only says that it follows the schema.
    ben.post("/consumers/g", {"name": "reader", "format": "avro"})
    path = "/consumers/g/instances/reader"
    ben.post(f"{path}/assignments", PLACES)
    ben.post(f"{path}/positions/end", PLACES)
    framed = {"records": [{"value": b64encode(b"\0" + secret_id.to_bytes(4, "big")).decode()}]}
    assert ben.post("/topics/t", framed).status == 200
    shown = ben.get(f"{path}/records?timeout=5000")
    assert shown.status == 422
    assert b"secret" not in shown.body
    assert ben.ask("DELETE", path).status == 204


def test_rights_to_read(ann: HttpClient, ben: HttpClient) -> None:
    path = "/consumers/g/instances/mine"
    allow(ann, "group", "g", "read")
    assert ben.post("/consumers/g", {"name": "mine"}).status == 200
    assert ben.post("/consumers/other", {"name": "mine"}).status == 403
    assert ben.post(f"{path}/subscription", {"topics": ["t"]}).status == 403
    allow(ann, "topic", "t", "describe")
    assert ben.post(f"{path}/subscription", {"topics": ["t"]}).status == 204
    assert ben.get(f"{path}/records?timeout=1000").json["error_code"] == 40301
    assert ben.post(f"{path}/offsets", {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}).status == 403
    allow(ann, "topic", "t", "read")
    assert ben.get(f"{path}/records").status == 200
    ben.ask("DELETE", f"{path}/subscription")
    # A pattern gives what one may read.
    assert ben.post(f"{path}/subscription", {"topic_pattern": ".*"}).status == 204
    ann.post("/topics/hidden", {"records": [{"value": "YQ=="}]})
    found = ben.get(f"{path}/records?timeout=1000")
    assert found.status == 200
    assert {each["topic"] for each in found.json} <= {"t"}
    assert ben.ask("DELETE", path).status == 204
