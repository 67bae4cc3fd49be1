"""One connected client per process and connection settings, and its behaviour after failures."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from headwater.client.cluster import Cluster
from headwater.client.errors import ConnectionLost
from headwater.errors import ConfigError
from headwater.spark.options.broker_address import BrokerAddress, broker_address
from headwater.spark.options.options import Options
from headwater.testing import Broker
from tests.support.spark.reads import Query, batch, numbered, produce, rows, stream, values


def test_the_tasks_of_a_process_share_a_client(headwater_broker: Broker) -> None:
    servers = headwater_broker.bootstrap_servers
    assert BrokerAddress(servers).cluster() is BrokerAddress(servers).cluster()
    assert BrokerAddress(servers).cluster() is not BrokerAddress(servers, (("client.id", "me"),)).cluster()


def test_a_forked_process_does_not_use_the_connections_of_its_parent(
    headwater_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = BrokerAddress(headwater_broker.bootstrap_servers).cluster()
    process_id = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process_id + 1)
    assert BrokerAddress(headwater_broker.bootstrap_servers).cluster() is not parents


def test_settings_of_kafkas_clients_are_passed_on() -> None:
    options = Options({"kafka.bootstrap.servers": "a:1", "kafka.client.id": "me"}, ["bootstrap.servers"])
    assert broker_address(options) == BrokerAddress("a:1", (("client.id", "me"),))


def test_both_names_of_a_setting_may_be_given_with_the_same_value() -> None:
    options = Options({"kafka.bootstrap.servers": "a:1", "bootstrap.servers": "a:1"}, ["bootstrap.servers"])
    assert broker_address(options).bootstrap_servers == "a:1"


def test_invalid_security_settings_are_refused_when_the_query_is_made() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(ConfigError, match=r"sasl\.mechanism is missing"):
        broker_address(Options(given, ["bootstrap.servers"]))


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(BrokerAddress("a:1", (("sasl.jaas.config", 'password="secret"'),)))


def test_an_unreachable_broker_is_an_error_at_once() -> None:
    with pytest.raises(ConnectionLost, match=r"cannot reach 127\.0\.0\.1:1"):
        Cluster("127.0.0.1:1").topics()


@pytest.fixture
def restartable(tmp_path: Path) -> Generator[list[Broker]]:
    """A broker in a list of one, so that `restart` can replace it with another on the same port and data."""
    running = [Broker(data_directory=tmp_path).start()]
    yield running
    running[0].stop()


def restart(running: list[Broker]) -> None:
    before = running.pop()
    before.stop()
    settings = {"listeners": before.bootstrap_servers}
    running.append(Broker(settings, data_directory=before.data_directory).start())


def test_a_query_goes_on_after_its_broker_was_restarted(restartable: list[Broker]) -> None:
    """Driver and tasks both come back with a dead connection and with cached leaders."""
    servers = restartable[0].bootstrap_servers
    with Cluster(servers) as cluster:
        produce(cluster, "orders", numbered(3))
    query = Query(stream(restartable[0], {"subscribe": "orders", "startingOffsets": "earliest"}))
    assert query.next() == numbered(3)

    restart(restartable)
    with Cluster(servers) as cluster:
        produce(cluster, "orders", numbered(3, 3))
    assert query.next() == numbered(3, 3)

    with Cluster(servers) as cluster:
        produce(cluster, "orders", numbered(3, 6))
    _, planned = query.plan()
    restart(restartable)
    assert values(rows(query.reader, planned)) == numbered(3, 6)
    BrokerAddress(servers).cluster().close()


def test_a_task_that_is_abandoned_early_does_not_harm_the_next(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    """As for LIMIT: a response to the first task is still in flight when the second uses the same connection."""
    sent = [bytes(1000)] * 20_000
    produce(cluster, topic, sent)
    reader = batch(headwater_broker, {"subscribe": topic})
    [planned] = reader.partitions()
    left: Any = reader.read(planned)
    assert next(left).num_rows > 0
    left.close()
    shared = BrokerAddress(headwater_broker.bootstrap_servers).cluster()
    [connection] = [each for (_, apart), each in shared._connections.items() if not apart]
    assert connection._in_flight, "an answer is under way"

    assert values(rows(reader, [planned])) == sent
    assert not connection._in_flight
