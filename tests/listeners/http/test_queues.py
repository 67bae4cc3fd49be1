"""/v1/queues and dead letters: records of share groups that are received in one request and settled in another."""

import threading
from uuid import uuid4

import pytest

from headwater.ids import TopicName, TopicPartition
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually
from tests.support.http.client import Answer, HttpClient
from tests.support.http.inside import services_of
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_shares import configure


@pytest.fixture
def topic(http: HttpClient) -> str:
    name = f"jobs-{uuid4().hex}"
    assert http.post("/v1/topics", {"name": name, "partitions": 1}).status == 201
    return name


@pytest.fixture
def group() -> str:
    return f"workers-{uuid4().hex}"


def produce(http: HttpClient, topic: str, *values: str) -> None:
    records = [{"value": value, "headers": [{"name": "h", "value": "x"}]} for value in values]
    assert http.post(f"/v1/topics/{topic}/records", {"records": records}).status == 200


def receive(http: HttpClient, topic: str, group: str, **body: object) -> list[dict[str, object]]:
    answer = http.post(f"/v1/queues/{group}/receive", {"topics": [topic], "from": "earliest", **body})
    assert answer.status == 200, answer.body
    return answer.json["records"]


def settle(http: HttpClient, how: str, group: str, *receipts: object, **body: object) -> Answer:
    return http.post(f"/v1/queues/{group}/{how}", {"receipts": receipts, **body})


class TestQueues:
    def test_received_and_settled(self, http: HttpClient, topic: str, group: str) -> None:
        produce(http, topic, "a", "b", "c", "d")
        received = receive(http, topic, group, limit=10)
        assert [each["value"] for each in received] == ["a", "b", "c", "d"]
        assert received[0]["headers"] == [{"name": "h", "value": "x"}]
        a, b, c, d = (each["receipt"] for each in received)
        assert settle(http, "ack", group, a).json == {"results": [{}]}
        assert settle(http, "nack", group, b, delay_ms=0).status == 200
        assert settle(http, "reject", group, c).status == 200
        assert settle(http, "extend", group, d, lock_ms=60_000).status == 200
        again = receive(http, topic, group, limit=10)
        assert [(each["value"], each["delivery_count"]) for each in again] == [("b", 2)]
        stats = http.get(f"/v1/queues/{group}/stats").json["partitions"]
        assert [(each["topic"], each["backlog"], each["held"], each["accepted"]) for each in stats] == [
            (topic, 2, 2, 1)
        ]
        assert (stats[0]["archived"], stats[0]["deliveries"]) == (1, 5)
        peeked = http.get(f"/v1/queues/{group}/records?topic={topic}").json["records"]
        assert [(each["value"], each["state"]) for each in peeked] == [("b", "held"), ("d", "held")]
        assert "receipt" not in peeked[0]

    def test_what_an_open_transaction_settles_is_shown_as_pending(
        self, http: HttpClient, topic: str, group: str
    ) -> None:
        produce(http, topic, "a")
        (record,) = receive(http, topic, group)
        producer = http.post("/v1/transactions", {"transactional_id": group}).json
        settled = {**producer, "group": group, "receipts": [record["receipt"]]}
        assert http.post(f"/v1/transactions/{group}/ack", settled).status == 200
        peeked = http.get(f"/v1/queues/{group}/records?topic={topic}").json["records"]
        assert [each["state"] for each in peeked] == ["pending"]
        assert http.post(f"/v1/transactions/{group}/abort", producer).status == 200

    def test_each_receipt_counts_for_itself(self, http: HttpClient, topic: str, group: str) -> None:
        produce(http, topic, "a")
        (receipt,) = (each["receipt"] for each in receive(http, topic, group))
        answer = settle(http, "ack", group, receipt, "forged")
        assert answer.status == 207
        assert answer.json["results"][0] == {}
        assert answer.json["results"][1]["code"] == "INVALID_REQUEST"
        again = settle(http, "ack", group, receipt)
        assert (again.status, again.json["code"]) == (409, "INVALID_RECORD_STATE")
        assert settle(http, "nack", "another", receipt).status == 400

    def test_a_wait_ends_with_the_first_record(self, http: HttpClient, broker: Broker, topic: str, group: str) -> None:
        assert receive(http, topic, group) == []
        received: list[dict[str, object]] = []

        def wait() -> None:
            with HttpClient(broker) as client:
                received.extend(receive(client, topic, group, wait_ms=20_000))

        waiting = threading.Thread(target=wait)
        waiting.start()
        produce(http, topic, "late")
        waiting.join()
        assert [each["value"] for each in received] == ["late"]

    def test_a_client_that_hangs_up_takes_nothing(
        self, http: HttpClient, broker: Broker, topic: str, group: str
    ) -> None:
        assert receive(http, topic, group) == []
        leaver = HttpClient(broker)
        leaver.connection.request(
            "POST",
            f"/v1/queues/{group}/receive",
            f'{{"topics": ["{topic}"], "wait_ms": 30000}}',
            {"content-type": "application/json"},
        )
        busy = services_of(broker).busy
        eventually(broker, lambda: busy)
        leaver.connection.close()
        eventually(broker, lambda: not busy)
        produce(http, topic, "a")
        assert [each["delivery_count"] for each in receive(http, topic, group)] == [1]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"topics": []},
            {"topics": ["t"], "limit": 0},
            {"topics": ["t"], "limit": 1001},
            {"topics": ["t"], "wait_ms": -1},
            {"topics": ["t"], "from": "middle"},
            {"topics": "t"},
        ],
    )
    def test_a_wrong_reception_is_refused(self, http: HttpClient, group: str, body: object) -> None:
        assert http.post(f"/v1/queues/{group}/receive", body).status == 400

    def test_a_topic_that_is_not_there(self, http: HttpClient, group: str) -> None:
        assert http.post(f"/v1/queues/{group}/receive", {"topics": ["nothing"]}).status == 404
        assert http.get("/v1/queues/nobody/stats").status == 404


def test_dead_letters(http: HttpClient, broker: Broker, topic: str, group: str) -> None:
    with RawClient(broker) as client:
        configure(client, group, headwater_deadletterqueue_enable="true")
    produce(http, topic, "bad")
    (receipt,) = (each["receipt"] for each in receive(http, topic, group))
    assert settle(http, "reject", group, receipt).status == 200
    path = f"/v1/topics/{topic}.dlq/partitions/0/dead-letters"
    written = TopicPartition(TopicName(f"{topic}.dlq"), 0)
    partitions = broker.node.broker.partitions
    eventually(broker, lambda: (partition := partitions.find(written)) is not None and partition.high_watermark)
    (letter,) = http.get(path).json["dead_letters"]
    assert letter["value"] == "bad"
    assert letter["headers"] == [{"name": "h", "value": "x"}]
    assert (letter["group"], letter["reason"], letter["delivery_count"]) == (group, "rejected", 1)
    assert (letter["origin"]["topic"], letter["origin"]["offset"]) == (topic, 0)
    assert http.get(f"{path}?group=another").json["dead_letters"] == []
    assert http.get(f"{path}?offset={letter['offset']}&limit=1").json["dead_letters"] == [letter]
