"""Who may do what: every route with no rights, and each right with what it allows."""

# pyright: reportPrivateImportUsage=false

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headwater.broker_security import BrokerSecurity
from headwater.listeners.http.operation import Operation
from headwater.listeners.http.registry.area import AREA
from headwater.testing import Broker
from tests.support.http.client import Answer, HttpClient, basic

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
PERMIT = AclPermissionType.ALLOW
PASSWORDS = {"ann": "a", "ben": "b", "eve": "e"}
# What every client may know that has authenticated.
HARMLESS = {"GET /schemas/types", "GET /v1/metadata/id", "GET /v1/metadata/version"}
# Lists leave out what the client may not see.
FILTERED = {
    "GET /subjects",
    "GET /schemas",
    "GET /schemas/ids/{schema_id}/subjects",
    "GET /schemas/ids/{schema_id}/versions",
    "GET /schemas/guids/{guid}/ids",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users=PASSWORDS, authorizer=True)
    with Broker({"headwater.schemas.enable": "true"}, security=security, http=True) as running:
        yield running


@pytest.fixture
def ann(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker, basic("ann", "a")) as client:
        client.post("/subjects/orders-value/versions", {"schema": ORDER})
        yield client


@pytest.fixture
def eve(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker, basic("eve", "e")) as client:
        yield client


def ask(client: HttpClient, method: str, path: str, guid: str = "x") -> Answer:
    for name, value in {
        "{subject}": "orders-value",
        "{version}": "1",
        "{schema_id}": "1",
        "{guid}": guid,
        "{context}": ".x",
    }.items():
        path = path.replace(name, value)
    body = {"schema": ORDER, "mode": "READWRITE"} if method in ("POST", "PUT") else None
    return client.ask(method, path, body)


@pytest.mark.parametrize("operation", AREA.operations, ids=lambda each: each.name)
def test_without_rights_nothing_is_done_or_shown(operation: Operation, ann: HttpClient, eve: HttpClient) -> None:
    method, _, path = operation.name.partition(" ")
    guid = ann.get("/subjects/orders-value/versions/1").json["guid"]
    answer = ask(eve, method, path, guid)

    if operation.name in HARMLESS:
        assert answer.status == 200
    elif operation.name in FILTERED:
        assert (answer.status, answer.json) == (200, [])
    else:
        assert (answer.status, answer.json["error_code"]) == (403, 40301), answer.body
    with HttpClient(eve.broker) as stranger:
        assert ask(stranger, method, path, guid).status == 401


def test_rights_to_the_topic_are_those_to_its_schemas(broker: Broker) -> None:
    admin = AdminClient(broker.client_settings("ann"))
    rules = [
        AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ben", "*", operation, PERMIT)
        for name, operation in (("written", AclOperation.WRITE), ("read", AclOperation.READ))
    ]
    for created in admin.create_acls(rules).values():
        created.result()
    with HttpClient(broker, basic("ann", "a")) as ann, HttpClient(broker, basic("ben", "b")) as ben:
        ann.post("/subjects/read-value/versions", {"schema": ORDER.replace("Order", "Read")})
        schema_id = ann.get("/subjects/read-value/versions/1").json["id"]

        assert ben.post("/subjects/written-value/versions", {"schema": ORDER}).status == 200
        assert ben.post("/subjects/:.ctx:written-key/versions", {"schema": ORDER}).status == 200
        assert ben.post("/subjects/read-value/versions", {"schema": ORDER}).status == 403
        assert ben.get("/subjects/read-value/versions/1").status == 200
        assert ben.get(f"/schemas/ids/{schema_id}").status == 200
        assert set(ben.get("/subjects").json) == {"read-value", "written-value", ":.ctx:written-key"}
        assert ben.ask("DELETE", "/subjects/written-value").status == 403
        assert ben.ask("PUT", "/config/written-value", {"compatibility": "NONE"}).status == 403
        # A schema shows what it refers to.
        refers = {"schema": ORDER, "references": [{"name": "x", "subject": "orders-value", "version": 1}]}
        assert ben.post("/subjects/written-value/versions", refers).status == 403
