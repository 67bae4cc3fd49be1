"""/v1/schedules: records that are produced with a delay, and what becomes of them until they appear."""

import time
from uuid import uuid4

import pytest

from tests.support.http.client import Answer, HttpClient

HOUR_MS = 3_600_000


@pytest.fixture
def topic(http: HttpClient) -> str:
    name = f"later-{uuid4().hex}"
    config = {"headwater.delay.enable": "true"}
    assert http.post("/v1/topics", {"name": name, "partitions": 1, "config": config}).status == 201
    return name


def produce(http: HttpClient, topic: str, *records: object) -> Answer:
    return http.post(f"/v1/topics/{topic}/records", {"records": records})


def scheduled(http: HttpClient, topic: str, query: str = "") -> list[dict[str, object]]:
    answer = http.get(f"/v1/schedules/{topic}/records?{query}")
    assert answer.status == 200, answer.body
    return answer.json["records"]


def consumed(http: HttpClient, topic: str, wait_ms: int = 0) -> list[dict[str, object]]:
    return http.get(f"/v1/topics/{topic}/partitions/0/records?wait_ms={wait_ms}").json["records"]


def test_from_the_delay_to_the_delivery(http: HttpClient, topic: str) -> None:
    answer = produce(
        http,
        topic,
        {"value": "a", "delay_ms": HOUR_MS, "schedule_id": "first"},
        {"value": "b", "deliver_at_ms": int(time.time() * 1000) + HOUR_MS},
        {"value": "now"},
    )
    assert answer.status == 200
    assert [each["value"] for each in consumed(http, topic)] == ["now"]
    counted = http.get(f"/v1/schedules/{topic}").json
    assert (counted["topic"], counted["pending"]) == (topic, 2)
    listed = http.get(f"/v1/schedules?after={topic[:-1]}&limit=1").json
    assert [each["topic"] for each in listed["schedules"]] == [topic]
    first, second = scheduled(http, topic)
    assert (first["schedule_id"], "value" in first) == ("first", False)
    assert [each["value"] for each in scheduled(http, topic, "contents=true")] == ["a", "b"]
    assert scheduled(http, topic, "schedule_id=first") == [first]
    assert http.get(f"/v1/schedules/{topic}/records/{second['place']}").json["value"] == "b"

    page = http.get(f"/v1/schedules/{topic}/records?limit=1").json
    assert page["records"] == [first]
    assert http.get(f"/v1/schedules/{topic}/records?limit=1&after={page['next']}").json["records"] == [second]

    names = {"records": [{"place": second["place"]}]}
    moved = http.post(f"/v1/schedules/{topic}/move", {**names, "due_ms": first["due_ms"]})
    assert moved.json == {"results": [{"changed": 1}]}
    assert scheduled(http, topic)[1]["due_ms"] == first["due_ms"]
    partly = http.post(f"/v1/schedules/{topic}/cancel", {"records": [{"schedule_id": "first"}, {"place": "0-99"}]})
    assert partly.status == 207
    assert [each.get("code") for each in partly.json["results"]] == [None, "RESOURCE_NOT_FOUND"]
    assert http.post(f"/v1/schedules/{topic}/deliver", names).status == 200
    assert [
        each["value"]
        for each in http.get(f"/v1/topics/{topic}/partitions/0/records?offset=3&wait_ms=20000").json["records"]
    ] == ["b"]
    assert scheduled(http, topic) == []


def test_a_directive_that_the_topic_does_not_heed_is_refused(http: HttpClient) -> None:
    """To Kafka's clients it would be a header like any other, and the record would appear at once."""
    name = f"plain-{uuid4().hex}"
    http.post("/v1/topics", {"name": name, "partitions": 1})
    for directive, setting in (
        ({"delay_ms": 5}, "headwater.delay.enable"),
        ({"deliver_at_ms": 5}, "headwater.delay.enable"),
        ({"priority": 0}, "headwater.priority.enable"),
        ({"ttl_ms": 5}, "headwater.ttl.enable"),
    ):
        answer = produce(http, name, {"value": "x", **directive})
        assert answer.status == 400
        assert setting in answer.json["detail"]
    assert consumed(http, name) == []


def test_priority_and_time_to_live_are_headers(http: HttpClient) -> None:
    name = f"urgent-{uuid4().hex}"
    config = {"headwater.priority.enable": "true", "headwater.ttl.enable": "true"}
    http.post("/v1/topics", {"name": name, "partitions": 1, "config": config})
    assert produce(http, name, {"value": "x", "priority": 0, "ttl_ms": 60_000}).status == 200
    (record,) = consumed(http, name)
    assert record["headers"] == [
        {"name": "headwater-priority", "value": "0"},
        {"name": "headwater-ttl-ms", "value": "60000"},
    ]
    refused = produce(http, name, {"value": "x", "priority": 9})
    assert (refused.status, refused.json["code"]) == (400, "INVALID_RECORD")


@pytest.mark.parametrize("directive", [{"delay_ms": -1}, {"deliver_at_ms": 10**17}, {"schedule_id": "alone"}])
def test_an_impossible_directive_is_refused(http: HttpClient, topic: str, directive: dict[str, object]) -> None:
    assert produce(http, topic, {"value": "x", **directive}).status == 400


@pytest.mark.parametrize(
    ("change", "body"),
    [
        ("cancel", {"records": []}),
        ("cancel", {"records": [{}]}),
        ("cancel", {"records": [{"place": "0-1", "schedule_id": "x"}]}),
        ("cancel", {"records": [{"place": "x"}]}),
        ("cancel", {"records": [{"place": f"{2**31}-1"}]}),
        ("move", {"records": [{"place": "0-1"}]}),
        ("move", {"records": [{"place": "0-1"}], "due_ms": 1, "delay_ms": 1}),
        ("move", {"records": [{"place": "0-1"}], "due_ms": 2**53}),
    ],
)
def test_a_wrong_change_is_refused(http: HttpClient, topic: str, change: str, body: object) -> None:
    assert http.post(f"/v1/schedules/{topic}/{change}", body).status == 400


def test_what_is_not_there(http: HttpClient, topic: str) -> None:
    assert http.get("/v1/schedules/nothing").status == 404
    assert http.get(f"/v1/schedules/{topic}/records/0-5").status == 404
    assert http.get(f"/v1/schedules/{topic}/records/x").status == 400
