"""Consumers of the REST proxy expire, are limited in number, and belong to their users."""

from collections.abc import Callable, Iterator

import pytest

from headwater.broker_security import BrokerSecurity
from headwater.testing import Broker
from tests.support.http.client import HttpClient, basic
from tests.support.http.rest_consumer import SETTINGS, RestConsumer, wait_until, write

LIMITS = {"headwater.rest.proxy.consumers.max": "3", "headwater.rest.proxy.consumers.max.per.user": "2"}
IDLE = "headwater.rest.proxy.consumer.idle.ms"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users={"ann": "a", "ben": "b", "cat": "c"}, authorizer=True)
    with Broker({**SETTINGS, **LIMITS, "super.users": "User:ann;User:ben"}, security=security, http=True) as broker:
        yield broker


@pytest.fixture
def http(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker, basic("ann", "a")) as client:
        yield client


@pytest.fixture
def ben(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker, basic("ben", "b")) as client:
        yield client


@pytest.fixture
def expiry(http: HttpClient) -> Iterator[Callable[[], object]]:
    """Begins to let consumers expire that are idle for a second."""
    yield lambda: http.ask("PATCH", "/v1/config", {"set": {IDLE: "1000"}})
    http.ask("PATCH", "/v1/config", {"set": {IDLE: "300000"}})


def test_an_idle_consumer_leaves_its_group_and_what_is_not_processed_is_read_again(
    http: HttpClient, broker: Broker, topic: str, expiry: Callable[[], object]
) -> None:
    write(http, topic, 1, 2)
    one = RestConsumer(broker, topic, headers=basic("ann", "a"))
    one.subscribe(topic)
    assert one.take(2) == [1, 2]
    assert len(http.get(f"/v1/groups/{topic}").json["members"]) == 1

    expiry()
    wait_until(lambda: http.get(f"/v1/groups/{topic}").json["members"] == [])

    assert one.ask("GET", "/subscription").json["error_code"] == 40403
    one.http.connection.close()
    other = RestConsumer(broker, topic, headers=basic("ann", "a"))
    other.subscribe(topic)
    assert other.take(2) == [1, 2]
    assert other.delete() == 204


def test_nobody_uses_or_sees_the_consumer_of_another_user(http: HttpClient, ben: HttpClient, topic: str) -> None:
    path = f"/consumers/{topic}/instances/same"
    assert http.post(f"/consumers/{topic}", {"name": "same"}).status == 200
    for method, more in (("GET", "/records"), ("DELETE", ""), ("POST", "/offsets"), ("GET", "/assignments")):
        answered = ben.ask(method, path + more)
        assert (answered.status, answered.json["error_code"]) == (404, 40403)

    assert ben.post(f"/consumers/{topic}", {"name": "same"}).status == 200, "names are each user's own"
    assert ben.ask("DELETE", path).status == 204
    assert http.ask("DELETE", path).status == 204


def test_consumers_are_limited_for_each_user_and_for_all(http: HttpClient, ben: HttpClient, topic: str) -> None:
    made: list[tuple[HttpClient, str]] = []

    def create(client: HttpClient) -> str:
        """Empty, or the setting that is in the way."""
        answered = client.post(f"/consumers/{topic}", {})
        if answered.status == 200:
            made.append((client, f"/consumers/{topic}/instances/{answered.json['instance_id']}"))
            return ""
        assert answered.status == 429
        return answered.json["message"].rpartition("(")[2]

    assert [create(http) for _ in range(3)] == ["", "", "headwater.rest.proxy.consumers.max.per.user)"]
    assert [create(ben) for _ in range(2)] == ["", "headwater.rest.proxy.consumers.max)"]
    client, path = made.pop(0)
    assert client.ask("DELETE", path).status == 204
    assert create(ben) == ""
    for client, path in made:
        assert client.ask("DELETE", path).status == 204


def test_a_consumer_ends_with_the_right_to_its_group(broker: Broker, http: HttpClient, topic: str) -> None:
    security = {"principal": "User:cat", "operation": "all"}
    for rule in ({"resource_type": "topic", "name": topic}, {"resource_type": "group", "name": topic}):
        assert http.post("/v1/acls", {**security, **rule}).status in (200, 201, 204)
    with HttpClient(broker, basic("cat", "c")) as cat:
        created = cat.post(f"/consumers/{topic}", {"name": "x"})
        assert created.status == 200, created.body
        path = f"/consumers/{topic}/instances/x"
        assert cat.post(f"{path}/subscription", {"topics": [topic]}).status == 204
        assert len(http.get(f"/v1/groups/{topic}").json["members"]) == 1

        http.post("/v1/acls/delete", {"principal": "User:cat", "resource_type": "group"})

        assert cat.get(f"{path}/records").json["error_code"] == 40301
        wait_until(lambda: http.get(f"/v1/groups/{topic}").json["members"] == [])
