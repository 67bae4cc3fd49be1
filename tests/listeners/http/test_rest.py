"""/v1: topics, records, groups, transactions, access and the cluster over HTTP, beside Kafka's clients."""

import gzip
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.broker_security import BrokerSecurity
from headwater.client import Cluster, QueueConsumer
from headwater.testing import Broker
from tests.support.http.client import HttpClient, basic


@pytest.fixture
def topic(http: HttpClient) -> str:
    name = f"topic-{uuid4().hex}"
    assert http.post("/v1/topics", {"name": name, "partitions": 1}).status == 201
    return name


def produce(http: HttpClient, topic: str, *records: object, **headers: str) -> list[dict[str, int]]:
    answer = http.post(f"/v1/topics/{topic}/records", {"records": list(records)}, **headers)
    assert answer.status == 200, answer.body
    return answer.json["records"]


def consumed(http: HttpClient, topic: str, query: str = "", partition: int = 0) -> list[dict[str, object]]:
    answer = http.get(f"/v1/topics/{topic}/partitions/{partition}/records?{query}")
    assert answer.status == 200, answer.body
    return answer.json["records"]


class TestTopics:
    def test_from_creation_to_deletion(self, http: HttpClient) -> None:
        name = f"t.{uuid4().hex}"
        body = {"name": name, "partitions": 3, "config": {"retention.ms": "1000"}}
        assert http.post("/v1/topics", {**body, "validate_only": True}).status == 204
        created = http.post("/v1/topics", body)
        assert (created.status, created.headers["location"]) == (201, f"/v1/topics/{name}")
        described = http.get(f"/v1/topics/{name}").json
        assert described == created.json
        assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
        assert described["config"] == {"retention.ms": "1000"}
        again = http.post("/v1/topics", body)
        assert (again.status, again.json["code"]) == (409, "TOPIC_ALREADY_EXISTS")
        grown = http.ask("PATCH", f"/v1/topics/{name}/partitions", {"partitions": 5})
        assert len(grown.json["partitions"]) == 5
        assert http.ask("DELETE", f"/v1/topics/{name}").status == 204
        assert http.get(f"/v1/topics/{name}").status == 404

    def test_settings_and_etags(self, http: HttpClient, topic: str) -> None:
        path = f"/v1/topics/{topic}/config"
        before = http.get(path)
        assert http.get(path, if_none_match=before.headers["etag"]).status == 304
        changed = http.ask("PATCH", path, {"set": {"retention.ms": "5"}}, {"if-match": before.headers["etag"]})
        values = {each["name"]: each for each in changed.json["config"]}
        assert (values["retention.ms"]["value"], values["retention.ms"]["is_default"]) == ("5", False)
        late = http.ask("PATCH", path, {"unset": ["retention.ms"]}, {"if-match": before.headers["etag"]})
        assert late.status == 412
        assert http.ask("PATCH", path, {"unset": ["retention.ms"]}).status == 200
        assert http.get(path).headers["etag"] == before.headers["etag"]
        wrong = http.ask("PATCH", path, {"set": {"retention": "5"}})
        assert (wrong.status, wrong.json["code"]) == (400, "INVALID_CONFIG")

    def test_pages(self, http: HttpClient) -> None:
        prefix = f"page-{uuid4().hex}"
        names = [f"{prefix}-{number}" for number in range(5)]
        for name in names:
            http.post("/v1/topics", {"name": name, "partitions": 1})
        found: list[str] = []
        after = prefix
        while after is not None:
            page = http.get(f"/v1/topics?limit=2&after={after}").json
            found += page["topics"]
            after = page["next"]
        assert [name for name in found if name.startswith(prefix)] == names

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"name": 1}',
            b'{"name": "x", "partitions": 0}',
            b'{"name": "x", "partitions": 1.5}',
            b'{"name": "x", "unknown": 1}',
            b'{"name": "\xff"}',
            b'{"name": "\\ud800"}',
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"name": "a/b"}',
            b'{"name": ".."}',
            b'{"name": "__consumer_offsets"}',
            b'{"name": ""}',
        ],
    )
    def test_a_wrong_body_is_refused(self, http: HttpClient, body: bytes) -> None:
        assert http.ask("POST", "/v1/topics", body, {"content-type": "application/json"}).status == 400

    def test_a_body_of_another_type_is_refused(self, http: HttpClient) -> None:
        body = b'{"name": "cross-site"}'
        for media_type in ("text/plain", "application/x-www-form-urlencoded", ""):
            assert http.ask("POST", "/v1/topics", body, {"content-type": media_type}).status == 415
        assert http.get("/v1/topics/cross-site").status == 404

    def test_a_wrong_query_is_refused(self, http: HttpClient) -> None:
        for query in ("limit=0", "limit=x", "limit=1&limit=2", "unknown=1", "limit=%zz", "&" * 100, "after=%ff"):
            assert http.get(f"/v1/topics?{query}").status == 400

    def test_records_are_deleted(self, http: HttpClient, topic: str) -> None:
        produce(http, topic, *({"value": str(number)} for number in range(5)))
        path = f"/v1/topics/{topic}/partitions/0/truncate"
        assert http.post(path, {"offset": 3}).json == {"start_offset": 3}
        assert [each["value"] for each in consumed(http, topic)] == ["3", "4"]
        assert http.post(path, {"offset": 9}).status == 416


class TestRecords:
    def test_text_json_and_bytes(self, http: HttpClient, topic: str) -> None:
        written = produce(
            http,
            topic,
            {"key": "k", "value": "text ☃", "headers": [{"name": "h", "value": "x"}, {"name": "n", "value": None}]},
            {"value": {"n": 12.5, "list": [1, "two", None]}, "timestamp_ms": 1_700_000_000_000},
            {"key_base64": b64encode(b"\xff").decode(), "value_base64": b64encode(b"\x00\xfe").decode()},
            {"key": "k", "value": None},
        )
        assert [each["offset"] for each in written] == [0, 1, 2, 3]
        records = consumed(http, topic)
        assert (records[0]["key"], records[0]["value"]) == ("k", "text ☃")
        assert records[0]["headers"] == [{"name": "h", "value": "x"}, {"name": "n", "value": None}]
        assert records[1]["value"] == '{"n": 12.5, "list": [1, "two", null]}'
        assert records[1]["timestamp_ms"] == 1_700_000_000_000
        assert (records[2]["key_base64"], records[2]["value_base64"]) == ("/w==", "AP4=")
        assert (records[3]["key"], records[3]["value"]) == ("k", None)
        as_json = consumed(http, topic, "format=json")
        assert as_json[1]["value"] == {"n": 12.5, "list": [1, "two", None]}
        assert as_json[0]["value"] == "text ☃"
        assert consumed(http, topic, "format=base64")[0]["value_base64"] == b64encode("text ☃".encode()).decode()

    def test_numbers_keep_all_their_digits(self, http: HttpClient, topic: str) -> None:
        number = b"1234567890123456789012345.678901234567890"
        body = b'{"records": [{"value": ' + number + b"}]}"
        headers = {"content-type": "application/json"}
        assert http.ask("POST", f"/v1/topics/{topic}/records", body, headers).status == 200
        answer = http.get(f"/v1/topics/{topic}/partitions/0/records?format=json")
        assert b'"value":' + number + b"}" in answer.body

    def test_kafkas_clients_see_what_http_writes_and_the_other_way_round(
        self, broker: Broker, http: HttpClient, topic: str
    ) -> None:
        produce(http, topic, {"key": "a", "value": "over http", "headers": [{"name": "h", "value": "1"}]})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(topic, b"over kafka", b"b")
        producer.flush()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(2, 30)
        assert [(each.key(), each.value()) for each in messages] == [(b"a", b"over http"), (b"b", b"over kafka")]
        assert messages[0].headers() == [("h", b"1")]
        consumer.close()
        assert [each["value"] for each in consumed(http, topic)] == ["over http", "over kafka"]

    def test_a_key_goes_to_the_partition_that_kafkas_clients_choose(self, broker: Broker, http: HttpClient) -> None:
        name = f"keys-{uuid4().hex}"
        http.post("/v1/topics", {"name": name, "partitions": 7})
        keys = [f"key-{number}" for number in range(30)]
        written = produce(http, name, *({"key": key, "value": "x"} for key in keys))
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce(name, b"y", key.encode())
        producer.flush()
        chosen = {
            str(each["key"]): partition
            for partition in range(7)
            for each in consumed(http, name, partition=partition)
            if each["value"] == "y"
        }
        assert [each["partition"] for each in written] == [chosen[key] for key in keys]

    def test_many_records_become_batches_that_the_topic_takes(self, http: HttpClient) -> None:
        name = f"small-{uuid4().hex}"
        http.post("/v1/topics", {"name": name, "partitions": 1, "config": {"max.message.bytes": "2000"}})
        written = produce(http, name, *({"value": f"{number:0500}"} for number in range(20)))
        assert [each["offset"] for each in written] == list(range(20))
        answer = http.post(f"/v1/topics/{name}/records", {"records": [{"value": "x" * 5000}]})
        assert (answer.status, answer.json["code"]) == (413, "MESSAGE_TOO_LARGE")
        mixed = http.post(f"/v1/topics/{name}/records", {"records": [{"value": "x"}, {"value": "x" * 5000}]})
        assert mixed.status == 207
        assert [(each["offset"], each.get("code")) for each in mixed.json["records"]] == [
            (20, None),
            (-1, "MESSAGE_TOO_LARGE"),
        ]

    def test_offsets_times_and_ends(self, http: HttpClient, topic: str) -> None:
        produce(http, topic, *({"value": str(number), "timestamp_ms": 1000 * number} for number in range(10)))
        path = f"/v1/topics/{topic}/partitions/0/records"
        assert [each["offset"] for each in consumed(http, topic, "offset=4&limit=3")] == [4, 5, 6]
        assert http.get(f"{path}?offset=4&limit=3").json["next_offset"] == 7
        assert [each["offset"] for each in consumed(http, topic, "offset=time:7500")] == [8, 9]
        assert http.get(f"{path}?offset=latest").json == {"records": [], "next_offset": 10, "high_watermark": 10}
        assert http.get(f"{path}?offset=time:99999").json["next_offset"] == 10
        for wrong, status in (("11", 416), ("-1", 400), ("time:x", 400), ("soon", 400), ("9" * 19, 416)):
            assert http.get(f"{path}?offset={wrong}").status == status, wrong

    def test_a_long_poll_ends_with_the_next_record(self, broker: Broker, http: HttpClient, topic: str) -> None:
        def write() -> None:
            with HttpClient(broker) as other:
                produce(other, topic, {"value": "at last"})

        writer = threading.Timer(0.2, write)
        writer.start()
        records = consumed(http, topic, "offset=0&wait_ms=30000")
        writer.join()
        assert [each["value"] for each in records] == ["at last"]

    def test_a_compressed_body(self, http: HttpClient, topic: str) -> None:
        body = gzip.compress(json.dumps({"records": [{"value": "packed"}]}).encode())
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        assert http.ask("POST", f"/v1/topics/{topic}/records", body, headers).status == 200
        assert http.ask("POST", f"/v1/topics/{topic}/records", body[:-4], headers).status == 400
        bomb = gzip.compress(b"x" * 50_000_000)
        assert http.ask("POST", f"/v1/topics/{topic}/records", bomb, headers).status == 413
        headers["content-encoding"] = "br"
        assert http.ask("POST", f"/v1/topics/{topic}/records", body, headers).status == 415

    def test_a_repeated_request_under_the_same_key_writes_once(self, http: HttpClient, topic: str) -> None:
        first = produce(http, topic, {"value": "once"}, idempotency_key="k1")
        assert produce(http, topic, {"value": "once"}, idempotency_key="k1") == first
        produce(http, topic, {"value": "once"}, idempotency_key="k2")
        assert len(consumed(http, topic)) == 2
        other = http.post(f"/v1/topics/{topic}/records", {"records": [{"value": "other"}]}, idempotency_key="k1")
        assert other.status == 422

    @pytest.mark.parametrize(
        "record",
        [
            {"value": "x", "value_base64": "eA=="},
            {"value_base64": "x"},
            {"value": "x", "partition": 9},
            {"value": "x", "partition": -1},
            {"value": "x", "timestamp_ms": -5},
            {"value": "x", "timestamp_ms": 2**62},
            {"value": "x", "more": 1},
            {"headers": [{"value": "x"}]},
            {"headers": [{"name": "x", "value": "y", "value_base64": "eA=="}]},
        ],
    )
    def test_a_wrong_record_is_refused(self, http: HttpClient, topic: str, record: object) -> None:
        answer = http.post(f"/v1/topics/{topic}/records", {"records": [record]})
        assert answer.status in (400, 404)
        assert consumed(http, topic) == []

    def test_internal_topics_are_not_written(self, http: HttpClient) -> None:
        answer = http.post("/v1/topics/__headwater_catalog/records", {"records": [{"value": "x"}]})
        assert answer.status in (400, 404)
        assert http.post("/v1/topics/nobody/records", {"records": [{"value": "x"}]}).status == 404
        assert http.get("/v1/topics/nobody/partitions/0/records").status == 404
        assert http.get("/v1/topics/nobody/partitions/x/records").status == 404


class TestGroups:
    def test_from_the_first_commit_to_deletion(self, broker: Broker, http: HttpClient, topic: str) -> None:
        produce(http, topic, *({"value": str(number)} for number in range(10)))
        group = f"group-{uuid4().hex}"
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        consumer.consume(4, 30)
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        described = http.get(f"/v1/groups/{group}").json
        assert (described["type"], described["state"], len(described["members"])) == ("classic", "Stable", 1)
        expected = {"topic": topic, "partition": 0, "offset": 4, "metadata": "", "lag": 6}
        assert described["offsets"] == [expected]
        reset = {"offsets": [{"topic": topic, "partition": 0, "to": "earliest"}]}
        assert http.ask("PUT", f"/v1/groups/{group}/offsets", reset).status in (400, 404, 409)
        assert http.ask("DELETE", f"/v1/groups/{group}").status == 409
        consumer.close()
        assert http.ask("PUT", f"/v1/groups/{group}/offsets", reset).json["offsets"] == [
            {**expected, "offset": 0, "lag": 10}
        ]
        entries = http.get("/v1/groups?limit=1000").json["groups"]
        assert group in [each["group"] for each in entries]
        assert http.ask("DELETE", f"/v1/groups/{group}").status == 204
        assert http.get(f"/v1/groups/{group}").status == 404

    def test_a_group_can_be_made_of_offsets_alone(self, http: HttpClient, topic: str) -> None:
        produce(http, topic, {"value": "x"})
        path = f"/v1/groups/new-{uuid4().hex}/offsets"
        assert http.ask("PUT", path, {"offsets": [{"topic": topic, "partition": 0, "offset": 1}]}).status == 200
        assert http.get(path).json["offsets"][0]["lag"] == 0
        for wrong in ({"topic": topic, "partition": 9, "offset": 1}, {"topic": topic, "partition": 0}):
            assert http.ask("PUT", path, {"offsets": [wrong]}).status in (400, 404)


class TestTransactions:
    def test_commit_and_abort(self, http: HttpClient, topic: str) -> None:
        transactional_id = f"tx-{uuid4().hex}"
        path = f"/v1/transactions/{transactional_id}"
        producer = http.post("/v1/transactions", {"transactional_id": transactional_id}).json
        for is_commit in (True, False, True):
            for number in range(2):
                body = {**producer, "topic": topic, "records": [{"value": f"{is_commit} {number}"}]}
                assert http.post(f"{path}/records", body).status == 200
            described = http.get(path).json
            assert (described["state"], described["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 0}])
            seen = [each["value"] for each in consumed(http, topic)]
            assert f"{is_commit} 0" not in seen[-1:] or seen.count(f"{is_commit} 0") < 2
            ended = http.post(f"{path}/{'commit' if is_commit else 'abort'}", producer)
            assert ended.status == 200, ended.body
            producer = ended.json
        while len(values := [each["value"] for each in consumed(http, topic)]) < 4:
            # The markers are on their way.
            continue
        assert values == ["True 0", "True 1"] * 2
        everything = consumed(http, topic, "committed_only=false")
        assert [each["value"] for each in everything].count("False 0") == 1
        entries = http.get("/v1/transactions?limit=1000").json["transactions"]
        assert transactional_id in [each["transactional_id"] for each in entries]

    def test_records_of_a_queue_are_settled_with_the_transaction(
        self, broker: Broker, http: HttpClient, topic: str
    ) -> None:
        produce(http, topic, *({"value": str(number)} for number in range(3)))
        transactional_id, group = f"tx-{uuid4().hex}", f"g-{uuid4().hex}"
        path = f"/v1/transactions/{transactional_id}"
        producer = http.post("/v1/transactions", {"transactional_id": transactional_id}).json
        with Cluster(broker.bootstrap_servers) as cluster:
            queue = QueueConsumer(cluster, group, [topic])
            first, second, third = (each.receipt for each in queue.receive(3))
            settled = http.post(f"{path}/ack", {**producer, "group": group, "receipts": [first]})
            assert (settled.status, settled.json) == (200, {"results": [{}]})
            some = http.post(f"{path}/reject", {**producer, "group": group, "receipts": [second, "wrong"]})
            assert some.status == 207
            assert [each.get("code") for each in some.json["results"]] == [None, "INVALID_REQUEST"]
            none = http.post(f"{path}/reject", {**producer, "group": group, "receipts": [first]})
            assert (none.status, none.json["code"]) == (409, "INVALID_RECORD_STATE")
            fenced = http.post(f"{path}/ack", {**producer, "epoch": 7, "group": group, "receipts": [third]})
            assert (fenced.status, fenced.json["code"]) == (409, "PRODUCER_FENCED")
            described = http.get(path).json
            assert [each["topic"] for each in described["partitions"]] == ["__share_group_state"]
            producer = http.post(f"{path}/abort", producer).json
            again = [each.receipt for each in queue.receive(3, wait_ms=10_000)]
            http.post(f"{path}/ack", {**producer, "group": group, "receipts": again})
            assert http.post(f"{path}/commit", producer).status == 200
            queue.ack(third)
            while queue.stats()[0].backlog > 2 - len(again):
                # The markers are on their way.
                continue

    def test_a_producer_that_was_replaced_is_refused(self, http: HttpClient, topic: str) -> None:
        body = {"transactional_id": f"tx-{uuid4().hex}"}
        old = http.post("/v1/transactions", body).json
        http.post("/v1/transactions", body)
        path = f"/v1/transactions/{body['transactional_id']}"
        refused = http.post(f"{path}/records", {**old, "topic": topic, "records": [{"value": "x"}]})
        assert (refused.status, refused.json["code"]) == (409, "INVALID_PRODUCER_EPOCH")
        assert http.post(f"{path}/commit", old).status == 409


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users={"ann": "a", "ben": "b"}, authorizer=True)
    with Broker({"headwater.audit": "on"}, security=security, http=True) as broker:
        yield broker


class TestAccess:
    def test_users(self, secured: Broker) -> None:
        with HttpClient(secured, basic("ann", "a")) as ann:
            assert ann.ask("PUT", "/v1/users/cleo", {"password": "first"}).status == 204
            users = {each["user"]: each["mechanisms"] for each in ann.get("/v1/users").json["users"]}
            assert users["cleo"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
            with HttpClient(secured, basic("cleo", "first")) as cleo:
                assert cleo.get("/v1/topics").json == {"topics": [], "next": None}
            assert ann.ask("DELETE", "/v1/users/cleo").status == 204
            assert ann.ask("DELETE", "/v1/users/cleo").status == 404
            assert ann.ask("PUT", "/v1/users/dora", {"password": ""}).status == 400
            assert "first" not in ann.get("/v1/users").body.decode()

    def test_rules_and_roles(self, secured: Broker) -> None:
        with HttpClient(secured, basic("ann", "a")) as ann, HttpClient(secured, basic("ben", "b")) as ben:
            ann.post("/v1/topics", {"name": "orders", "partitions": 1})
            assert ben.get("/v1/topics/orders").status == ben.get("/v1/topics/nothing").status == 403
            rule = {"principal": "User:ben", "resource_type": "topic", "name": "ord*", "operation": "read"}
            assert ann.post("/v1/acls", rule).status == 201
            assert ben.get("/v1/topics/orders/partitions/0/records").status == 200
            assert ben.post("/v1/topics/orders/records", {"records": [{"value": "x"}]}).status == 403
            grant = {"role": "writer", "principal": "User:ben", "on": "orders"}
            assert ann.post("/v1/grants", grant).status == 201
            assert ben.post("/v1/topics/orders/records", {"records": [{"value": "x"}]}).status == 200
            assert ann.post("/v1/grants/revoke", grant).status == 204
            listed = ann.get("/v1/acls?principal=User:ben").json["acls"]
            assert listed == [{**rule, "permission": "allow", "host": "*"}]
            assert ann.post("/v1/acls/delete", {"principal": "User:ben"}).json["acls"] == listed
            assert ben.get("/v1/topics/orders").status == 403
            assert ann.post("/v1/acls/delete", {}).status == 400
            role = {"name": "auditor", "permissions": {"topic": ["read", "describe"]}}
            assert ann.post("/v1/roles", role).json == {
                "name": "auditor",
                "permissions": {"topic": ["describe", "read"]},
                "is_ready": False,
            }
            assert "auditor" in [each["name"] for each in ann.get("/v1/roles").json["roles"]]
            assert ann.ask("DELETE", "/v1/roles/auditor").status == 204
            assert ann.post("/v1/roles", {"name": "x", "permissions": {"cow": ["moo"]}}).status == 400

    def test_the_audit_log(self, secured: Broker) -> None:
        with HttpClient(secured, basic("ann", "a")) as ann, HttpClient(secured, basic("ben", "b")) as ben:
            ann.post("/v1/topics", {"name": "audited", "partitions": 1})
            assert ben.get("/v1/audit").status == 403
            found = ann.get("/v1/audit?user=ann&type=topic.create&limit=10000").json["events"]
            assert [each["resource"] for each in found if "audited" in each["resource"]] == ["topic 'audited'"]

    def test_where_no_rules_are_enforced_they_are_refused(self, http: HttpClient) -> None:
        answer = http.get("/v1/acls")
        assert (answer.status, answer.json["code"]) == (403, "SECURITY_DISABLED")


class TestCluster:
    def test_description(self, broker: Broker, http: HttpClient) -> None:
        cluster = http.get("/v1/cluster").json
        assert cluster["nodes"] == [{"node_id": 1, "rack": None}]
        (directory,) = http.get("/v1/log-directories").json["log_directories"]
        assert directory["path"] == str(broker.data_directory)

    def test_settings(self, http: HttpClient) -> None:
        changed = http.ask("PATCH", "/v1/config", {"set": {"num.partitions": "4"}}).json["config"]
        assert next(each["value"] for each in changed if each["name"] == "num.partitions") == "4"
        assert http.ask("PATCH", "/v1/config", {"unset": ["num.partitions"]}).status == 200
        refused = http.ask("PATCH", "/v1/config", {"set": {"log.dir": "/etc"}})
        assert refused.status == 400


def test_the_description_and_its_page(http: HttpClient) -> None:
    described = http.get("/v1/openapi.json").json
    assert described["openapi"] == "3.1.0"
    assert "/v1/topics/{topic}/records" in described["paths"]
    page = http.get("/v1")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"<script" not in page.body
