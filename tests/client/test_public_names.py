"""The public names of `headwater.client`, and the documentation's code that uses them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import headwater.client
from headwater.client import Admin, Cluster, Consumer, GroupConsumer, Producer, TopicName, TopicPartition
from headwater.testing import Broker

DOCUMENT = Path(__file__).parents[2] / "docs" / "transactions.md"


@pytest.mark.parametrize("name", headwater.client.__all__)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(headwater.client, name) is not None
    assert name in dir(headwater.client)


def test_each_public_class_goes_by_its_own_name() -> None:
    named = {name: getattr(headwater.client, name) for name in headwater.client.__all__}
    classes = {name: found for name, found in named.items() if isinstance(found, type)}
    assert {name: found.__name__ for name, found in classes.items()} == {name: name for name in classes}
    assert {"Cluster", "Producer", "Refused"} < classes.keys()


def test_an_unknown_name_is_an_attribute_error() -> None:
    misspelt = "Clutser"
    with pytest.raises(AttributeError, match=r"'headwater\.client' has no attribute 'Clutser'"):
        getattr(headwater.client, misspelt)


def test_the_package_alone_loads_none_of_its_modules() -> None:
    check = "import sys, headwater.client; print(*(name for name in sys.modules if name.startswith('headwater')))"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["headwater", "headwater.client"]


def test_a_record_is_written_and_read_with_public_names(cluster: Cluster) -> None:
    created = Admin(cluster).create_topic("greetings", partition_count=1)
    with Producer(cluster) as producer:
        producer.send(created.name, b"Hello, Ann!")
    (record,) = Consumer(cluster, {TopicPartition(created.name, 0): 0}).poll()
    assert record.value == b"Hello, Ann!"
    with GroupConsumer(cluster, "readers") as consumer:
        consumer.subscribe([created.name])
        records = consumer.poll()
        while not records:
            records = consumer.poll()
    assert records == [record]


def test_the_documented_publication_runs(broker: Broker, cluster: Cluster) -> None:
    (snippet,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        if "headwater.client" in block
    ]
    Admin(cluster).create_topic("invoices", partition_count=1)
    scope: dict[str, object] = {}
    exec(snippet.replace("127.0.0.1:9092", broker.bootstrap_servers), scope)
    assert scope["published"] == headwater.client.PublishResult(is_replay=False, published_batch_id=42)
    (record,) = Consumer(cluster, {TopicPartition(TopicName("invoices"), 0): 0}, committed_only=True).poll()
    assert (record.key, record.value) == (b"key", b"value")
