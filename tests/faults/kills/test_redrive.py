"""Dead letters are put back once, although the broker and the command are killed again and again."""

import random
import time
from pathlib import Path

import pytest

from headwater.client.cluster import Cluster
from headwater.client.offsets import LATEST, list_offsets
from headwater.ids import TopicName, TopicPartition
from tests.support.broker.processes import BrokerProcess
from tests.support.cli.commands import Commands
from tests.support.client.dead_letters import bury, letter_topic, origin, values

LETTERS = 3000
KILLS = 8


@pytest.mark.slow
def test_neither_kill_loses_or_doubles_a_letter(tmp_path: Path) -> None:
    random.seed(7)
    with BrokerProcess(tmp_path / "data") as broker:
        commands = Commands(broker.bootstrap_servers)
        with Cluster(broker.bootstrap_servers) as cluster:
            topic, dlq = letter_topic(cluster, 3)
            for partition in range(3):
                first = LETTERS // 3 * partition
                origins = [origin(topic, each) for each in range(first, first + LETTERS // 3)]
                bury(cluster, dlq, origins, partition=partition)
            partitions = [TopicPartition(TopicName(topic), each) for each in (0, 1)]
            for number in range(KILLS):
                before = sum(list_offsets(cluster, partitions, LATEST).values())
                process = commands.start("queue", "dead-letters", "redrive", dlq, "--all", "--rate", "200")
                while process.poll() is None and sum(list_offsets(cluster, partitions, LATEST).values()) == before:
                    pass
                time.sleep(random.random() / 50)
                if number % 2:
                    broker.kill()
                    broker.start()
                process.kill()
                process.communicate()
            commands.succeed("queue", "dead-letters", "redrive", dlq, "--all")
            assert values(cluster, topic) == list(range(LETTERS))
