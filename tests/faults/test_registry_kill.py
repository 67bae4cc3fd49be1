"""A schema registry that is killed while many clients register the same and different schemas: ids stay consistent."""

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benchmarks.ports import port_of, reserved_port

from headwater.client.errors import ClientError
from headwater.client.registry.schema_registry import Schema, SchemaRegistry
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.slow

KILLS = 5
REGISTRATIONS = 2_000
CLIENTS = 25
SUBJECTS = 40
SCHEMAS = 50


def place(number: int) -> tuple[str, Schema]:
    """A subject and a schema; each pair comes once, each schema in all subjects."""
    subject, kind = number % SUBJECTS, number // SUBJECTS
    return f"subject-{subject}", Schema(f'{{"type":"fixed","name":"F{kind}","size":{kind + 1}}}')


def test_concurrent_registrations_over_kills_give_consistent_ids(tmp_path: Path) -> None:
    reserved = reserved_port()
    url = f"http://127.0.0.1:{port_of(reserved)}"
    settings = {"headwater.schemas.enable": "true", "headwater.http.listeners": url.replace("http", "HTTP", 1)}
    told: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    count = threading.Condition()

    def register(client: int) -> None:
        with SchemaRegistry({"schema.registry.url": url, "schema.registry.request.timeout.ms": "20000"}) as registry:
            for number in range(client, REGISTRATIONS, CLIENTS):
                subject, schema = place(number)
                while True:
                    try:
                        found = registry.register(subject, schema)
                        break
                    except ClientError as error:
                        # The broker is dead or not ready; what it was asked for it may have done.
                        if not error.is_retriable:
                            raise
                assert found.version is not None
                with count:
                    told[subject, schema.text].add((found.id, found.version))
                    count.notify_all()

    with reserved, BrokerProcess(tmp_path / "data", settings) as broker, ThreadPoolExecutor(CLIENTS) as threads:
        with SchemaRegistry(url) as registry:
            registry.configure(None, {"compatibility": "NONE"})
            clients = [threads.submit(register, client) for client in range(CLIENTS)]
            for kill in range(1, KILLS + 1):
                goal = kill * REGISTRATIONS // (KILLS + 1)
                with count:
                    assert count.wait_for(lambda goal=goal: len(told) >= goal, timeout=120)
                broker.kill()
                broker.start()
            for each in clients:
                each.result(120)
            for _ in range(2):
                stored = {
                    (str(each.subject), each.schema.text): {(each.id, each.version)} for each in registry.schemas()
                }
                assert stored == dict(told)
                broker.kill()
                broker.start()
        ids = defaultdict[str, set[int]](set)
        for (_, text), places in told.items():
            ids[text] |= {schema_id for schema_id, _ in places}
        assert len(ids) == SCHEMAS
        assert all(len(found) == 1 for found in ids.values()), "a schema has several ids"
        assert len({min(found) for found in ids.values()}) == SCHEMAS, "an id stands for several schemas"
