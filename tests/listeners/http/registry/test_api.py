"""The registry's API byte by byte: paths, media types, bodies, statuses and error codes."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headwater.testing import Broker
from tests.support.http.client import Answer, HttpClient

V1 = "application/vnd.schemaregistry.v1+json"
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
OTHER = ORDER.replace("]}", ',{"name":"note","type":"string","default":""}]}')
BROKEN = ORDER.replace("long", "string")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"headwater.schemas.enable": "true"}, http=True) as running:
        yield running


def register(http: HttpClient, subject: str, schema: str = ORDER, **more: object) -> int:
    answer = http.post(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema, **more})
    assert answer.status == 200, answer.body
    return answer.json["id"]


def refused(answer: Answer, code: int) -> str:
    assert answer.headers["content-type"] == V1
    assert set(answer.json) == {"error_code", "message"}
    assert answer.json["error_code"] == code, answer.body
    assert answer.status == (code if code < 1000 else code // 100)
    return answer.json["message"]


def test_a_registration_and_all_ways_to_read_it(http: HttpClient) -> None:
    schema_id = register(http, "orders-value")

    assert "orders-value" in http.get("/subjects").json
    assert http.get("/subjects/orders-value/versions").json == [1]
    found = http.get("/subjects/orders-value/versions/latest")
    assert found.headers["content-type"] == V1
    guid = found.json["guid"]
    assert found.json == {"subject": "orders-value", "version": 1, "id": schema_id, "guid": guid, "schema": ORDER}
    assert http.get("/subjects/orders-value/versions/1/schema").body == ORDER.encode()
    assert http.get("/subjects/orders-value/versions/1/referencedby").json == []
    assert http.get(f"/schemas/ids/{schema_id}").json["schema"] == ORDER
    assert http.get(f"/schemas/ids/{schema_id}/schema").body == ORDER.encode()
    assert "orders-value" in http.get(f"/schemas/ids/{schema_id}/subjects").json
    assert {"subject": "orders-value", "version": 1} in http.get(f"/schemas/ids/{schema_id}/versions").json
    assert http.get(f"/schemas/guids/{guid}").json["schema"] == ORDER
    assert {"context": ".", "id": schema_id} in http.get(f"/schemas/guids/{guid}/ids").json
    assert http.get("/schemas/types").json == ["AVRO", "JSON", "PROTOBUF"]
    assert any(each["subject"] == "orders-value" for each in http.get("/schemas").json)
    assert http.post("/subjects/orders-value", {"schema": ORDER}).json["version"] == 1


@pytest.mark.parametrize("media_type", [V1, "application/vnd.schemaregistry+json", "application/json"])
def test_all_media_types_are_taken(http: HttpClient, media_type: str) -> None:
    answer = http.ask("POST", "/subjects/media/versions", {"schema": ORDER}, {"content-type": media_type})

    assert answer.status == 200


def test_names_that_need_quoting(http: HttpClient) -> None:
    for subject in ("a/b c+d%", ":.ctx:x", "grüße"):
        register(http, subject)
        assert http.get(f"/subjects/{quote(subject, safe='')}/versions").json == [1]


def test_what_is_not_there(http: HttpClient) -> None:
    register(http, "there")
    assert refused(http.get("/subjects/no/versions"), 40401) == "Subject 'no' not found."
    assert refused(http.get("/subjects/no/versions/1"), 40401) == "Subject 'no' not found."
    assert refused(http.get("/subjects/there/versions/9"), 40402) == "Version 9 not found."
    assert refused(http.get("/schemas/ids/999999"), 40403) == "Schema 999999 not found"
    refused(http.get("/schemas/ids/999999/subjects"), 40403)
    refused(http.get("/schemas/guids/no"), 40403)
    refused(http.post("/subjects/there", {"schema": OTHER}), 40403)
    refused(http.post("/subjects/no", {"schema": OTHER}), 40401)
    refused(http.ask("DELETE", "/subjects/no"), 40401)
    refused(http.ask("DELETE", "/config/no"), 40401)
    refused(http.get("/config/no"), 40408)
    refused(http.get("/mode/no"), 40409)
    refused(http.get("/subjects/there/metadata?key=a&value=b"), 40403)


def test_what_is_not_valid(http: HttpClient) -> None:
    register(http, "valid")
    refused(http.get("/subjects/valid/versions/0"), 42202)
    refused(http.get("/subjects/valid/versions/x"), 42202)
    for schema in ("", "{", '{"type":"no"}', '{"type":"record","name":"R"}'):
        refused(http.post("/subjects/broken/versions", {"schema": schema}), 42201)
    refused(http.post("/subjects/broken/versions", {"schema": "{}", "schemaType": "XML"}), 42201)
    refused(http.post("/subjects/broken/versions", {"schema": "message", "schemaType": "PROTOBUF"}), 42201)
    refused(http.post("/subjects/broken/versions", {"schema": '{"type":"x"}', "schemaType": "JSON"}), 42201)
    refused(http.ask("PUT", "/config", {"compatibility": "SOMETIMES"}), 42203)
    refused(http.ask("PUT", "/mode/valid", {"mode": "SOMETIMES"}), 42204)
    refused(http.post("/subjects/__GLOBAL/versions", {"schema": ORDER}), 42208)
    rules = {"domainRules": [{"name": "a"}]}
    refused(http.post("/subjects/valid/versions", {"schema": ORDER, "ruleSet": rules}), 42210)
    refused(http.post("/subjects/valid/versions", b"{"), 415)
    refused(http.ask("POST", "/subjects/valid/versions", b"{", {"content-type": V1}), 400)
    refused(http.ask("PUT", "/subjects/valid/versions", {}), 405)
    assert refused(http.post("/subjects/valid/versions", {"schema": BROKEN}), 409).startswith(
        'Schema being registered is incompatible with an earlier schema for subject "valid", details: ['
    )


def test_deletion(http: HttpClient) -> None:
    register(http, "gone")
    register(http, "gone", OTHER)
    refused(http.ask("DELETE", "/subjects/gone?permanent=true"), 40405)
    refused(http.ask("DELETE", "/subjects/gone/versions/1?permanent=true"), 40407)
    assert http.ask("DELETE", "/subjects/gone/versions/latest").json == 2
    refused(http.ask("DELETE", "/subjects/gone/versions/2"), 40406)
    assert http.get("/subjects/gone/versions").json == [1]
    assert http.get("/subjects/gone/versions?deleted=true").json == [1, 2]
    assert http.get("/subjects/gone/versions?deletedOnly=true").json == [2]
    assert http.get("/subjects/gone/versions?deletedAsNegative=true").json == [1, -2]
    assert http.get("/subjects/gone/versions/2?deleted=true").json["deleted"] is True
    assert http.ask("DELETE", "/subjects/gone").json == [1]
    refused(http.ask("DELETE", "/subjects/gone"), 40404)
    assert "gone" not in http.get("/subjects").json
    assert "gone" in http.get("/subjects?deleted=true").json
    assert "gone" in http.get("/subjects?deletedOnly=true").json
    assert http.ask("DELETE", "/subjects/gone?permanent=true").json == [1, 2]
    assert "gone" not in http.get("/subjects?deleted=true").json


def test_settings(http: HttpClient) -> None:
    assert http.get("/config").json == {"compatibilityLevel": "BACKWARD"}
    assert http.ask("PUT", "/config/s", {"compatibility": "full"}).json == {"compatibility": "FULL"}
    assert http.ask("PUT", "/config/s", {"normalize": True}).json == {"compatibility": "FULL", "normalize": True}
    assert http.get("/config/s").json == {"compatibilityLevel": "FULL", "normalize": True}
    assert http.get("/config/t?defaultToGlobal=true").json == {"compatibilityLevel": "BACKWARD"}
    assert http.ask("DELETE", "/config/s").json == {"compatibilityLevel": "FULL", "normalize": True}
    assert http.get("/mode").json == {"mode": "READWRITE"}
    assert http.ask("PUT", "/mode/s", {"mode": "READONLY"}).json == {"mode": "READONLY"}
    assert http.get("/mode/s").json == {"mode": "READONLY"}
    refused(http.post("/subjects/s/versions", {"schema": ORDER}), 42205)
    assert http.ask("DELETE", "/mode/s").json == {"mode": "READONLY"}
    assert http.get("/mode/s?defaultToGlobal=true").json == {"mode": "READWRITE"}


def test_an_import_needs_an_empty_subject_unless_it_is_forced(http: HttpClient) -> None:
    register(http, "imported")
    refused(http.ask("PUT", "/mode/imported", {"mode": "IMPORT"}), 42205)
    assert http.ask("PUT", "/mode/imported?force=true", {"mode": "IMPORT"}).status == 200
    register(http, "imported", OTHER, id=5000, version=50)
    assert http.get("/subjects/imported/versions/50").json["id"] == 5000


def test_compatibility_is_told_without_registering(http: HttpClient) -> None:
    register(http, "told")
    path = "/compatibility/subjects/told/versions"
    assert http.post(path, {"schema": OTHER}).json == {"is_compatible": True}
    assert http.post(f"{path}/latest", {"schema": BROKEN}).json == {"is_compatible": False}
    told = http.post(f"{path}/1?verbose=true", {"schema": BROKEN}).json
    assert told["is_compatible"] is False
    assert told["messages"][0].startswith("{errorType:'TYPE_MISMATCH'")
    refused(http.post(f"{path}/7", {"schema": OTHER}), 40402)
    assert http.post("/compatibility/subjects/new/versions/latest", {"schema": OTHER}).json == {"is_compatible": True}
    assert http.post(f"{path}?verbose=true", {"schema": "{"}).json["is_compatible"] is False
    refused(http.post(path, {"schema": "{"}), 42201)


def test_contexts(http: HttpClient) -> None:
    register(http, ":.one:orders")
    assert ".one" in http.get("/contexts").json
    assert ":.one:orders" in http.get("/subjects").json
    assert http.get("/subjects?subjectPrefix=:.one:").json == [":.one:orders"]
    assert http.get("/subjects?subjectPrefix=or").json == [
        name for name in http.get("/subjects").json if name.startswith("or")
    ]
    refused(http.ask("DELETE", "/contexts/.one"), 42211)
    http.ask("DELETE", "/subjects/:.one:orders")
    http.ask("DELETE", "/subjects/:.one:orders?permanent=true")
    assert http.ask("DELETE", "/contexts/.one").status == 204
    assert ".one" not in http.get("/contexts").json


def test_lists_come_in_pages(http: HttpClient) -> None:
    for number in range(5):
        register(http, f"page-{number}")

    assert http.get("/subjects?subjectPrefix=page&offset=1&limit=2").json == ["page-1", "page-2"]


def test_a_broker_that_is_no_registry_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Broker(http=True) as broker, HttpClient(broker) as http:
        answer = http.get("/subjects")

    assert answer.status == 404
    assert "headwater.schemas.enable" in answer.json["message"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_trailing_slashes_and_more_segments_lead_nowhere(http: HttpClient, method: str) -> None:
    for path in ("/subjects/", "/subjects//versions", "/subjects/a/versions/1/", "/schemas/ids/1/x", "/config/a/b"):
        assert http.ask(method, path, {} if method in ("POST", "PUT") else None).status == 404, path
