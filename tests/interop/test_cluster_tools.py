"""Kafka's own tools for leaders, replicas, the quorum and log directories, against one node."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from headwater.protocol.messages.topics.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.interop import toolchain
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient

pytestmark = pytest.mark.interop

TIMEOUT_S = 120
LEADER_ELECTION = "LeaderElectionCommand"
REASSIGN = "reassign.ReassignPartitionsCommand"
QUORUM = "MetadataQuorumCommand"
NODE_ID = 1


class Tool(Protocol):
    def __call__(self, name: str, *options: str) -> str: ...


@pytest.fixture
def tool(broker: BrokerProcess) -> Tool:
    """Runs a tool to its end, and gives what it prints."""

    def run(name: str, *options: str) -> str:
        command = [*toolchain.tool(name), "--bootstrap-server", broker.bootstrap_servers, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done.stdout

    return run


@pytest.fixture
def created(broker: BrokerProcess, topic: str) -> str:
    """A topic with two partitions."""
    with RawClient(broker) as client:
        client.create(topic, 2)
    return topic


@pytest.fixture
def plan(created: str, tmp_path: Path) -> Callable[..., str]:
    """A file that says which nodes, and perhaps which directories, the partitions of the topic are moved to."""

    def write(*log_dirs: str) -> str:
        each = {"topic": created, "replicas": [NODE_ID], **({"log_dirs": log_dirs} if log_dirs else {})}
        file = tmp_path / "plan.json"
        file.write_text(json.dumps({"version": 1, "partitions": [{**each, "partition": index} for index in (0, 1)]}))
        return str(file)

    return write


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_leader_election_finds_all_leaders_in_place(tool: Tool, created: str, kind: str) -> None:
    of_one = tool(LEADER_ELECTION, "--election-type", kind, "--topic", created, "--partition", "1")
    of_all = tool(LEADER_ELECTION, "--election-type", kind, "--all-topic-partitions")

    assert of_one.strip() == f"Valid replica already elected for partitions {created}-1"
    assert of_all.strip() == ""


def test_partitions_are_reassigned_to_where_they_are(tool: Tool, created: str, plan: Callable[..., str]) -> None:
    file = plan()

    assert f"Successfully started partition reassignments for {created}-0,{created}-1" in tool(
        REASSIGN, "--execute", "--reassignment-json-file", file
    )
    verified = tool(REASSIGN, "--verify", "--reassignment-json-file", file)
    for index in (0, 1):
        assert f"Reassignment of partition {created}-{index} is completed." in verified
    assert tool(REASSIGN, "--list").strip() == "No partition reassignments found."
    assert "None of the specified partition reassignments are active." in tool(
        REASSIGN, "--cancel", "--reassignment-json-file", file
    )


def test_replicas_are_moved_to_the_directory_where_they_are(
    tool: Tool, broker: BrokerProcess, created: str, plan: Callable[..., str]
) -> None:
    with RawClient(broker) as client:
        (directory,) = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4).results
    file = plan(directory.log_dir)

    assert "Successfully started moving log directory" in tool(REASSIGN, "--execute", "--reassignment-json-file", file)
    verified = tool(REASSIGN, "--verify", "--reassignment-json-file", file)
    assert f"Reassignment of replica {created}-0-{NODE_ID} completed successfully." in verified


def test_a_plan_for_the_topic_is_generated(tool: Tool, created: str, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": created}]}))

    told = tool(REASSIGN, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", str(NODE_ID))

    proposed = json.loads(told.splitlines()[-1])
    assert {(each["partition"], *each["replicas"]) for each in proposed["partitions"]} == {(0, NODE_ID), (1, NODE_ID)}


def test_the_quorum_is_the_node(tool: Tool, broker: BrokerProcess) -> None:
    status = dict(line.split(":", 1) for line in tool(QUORUM, "describe", "--status").splitlines())
    (voter,) = json.loads(status["CurrentVoters"])
    heading, replica = (line.split() for line in tool(QUORUM, "describe", "--replication").splitlines())
    row = dict(zip(heading, replica, strict=True))

    assert status["LeaderId"].strip() == str(NODE_ID)
    assert int(status["HighWatermark"]) >= 0
    assert voter == {"id": NODE_ID, "endpoints": [f"PLAINTEXT://{broker.bootstrap_servers}"]}
    assert (row["NodeId"], row["Lag"], row["Status"]) == (str(NODE_ID), "0", "Leader")
