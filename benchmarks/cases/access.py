"""What authentication and rules cost a request: a broker with SASL and ACLs beside one without, in the same run."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import requests
from benchmarks.loads.access import OPEN, Access
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic
from headwater.client.access import AccessAdmin
from headwater.client.cluster import Cluster
from headwater.security.acl import Acl, Operation, PatternType, Permission, ResourceType

SASL = "SASL_PLAINTEXT"
USER = Access(user="ann", password="tea")
TOPIC = "orders"
# Of other users and topics, so that there is something to search.
OTHER_RULES = 1_000
# Off and on take turns, so that other load of the machine affects both alike.
TURNS = 5
SETTINGS = {
    "listeners": f"PLAINTEXT://127.0.0.1:0,{SASL}://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f'PlainLoginModule required user_{USER.user}="{USER.password}";',
    "authorizer.class.name": "acl",
    # For what the benchmark itself does beside.
    "super.users": "User:ANONYMOUS",
}


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    off_directory, on_directory = directory / "off", directory / "on"
    off_directory.mkdir()
    on_directory.mkdir()
    with system.start(off_directory) as off, system.start(on_directory, SETTINGS) as on:
        for broker in (off, on):
            bulk.prepare(system, broker, scale)
            create_topic(broker.address, TOPIC, 1, system.topic_settings(Flush.OS))
        _add_rules(on.address)
        for connections in scale.connections[:2]:
            costs = [
                (
                    _cost_us(off, off.address, OPEN, connections, scale),
                    _cost_us(on, on.addresses[SASL], USER, connections, scale),
                )
                for _ in range(TURNS)
            ]
            name = f"{connections} connection{'s' if connections > 1 else ''}"
            yield Figure(f"{name}: broker CPU, off", "us/request", median(each for each, _ in costs))
            yield Figure(f"{name}: broker CPU, on", "us/request", median(each for _, each in costs))
            yield Figure(f"{name}: broker CPU, on to off", "", median(each[1] / each[0] for each in costs))


def _add_rules(address: str) -> None:
    def rule(principal: str, name: str) -> Acl:
        return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", Operation.WRITE, Permission.ALLOW)

    others = [rule(f"User:other-{number}", f"topic-{number}") for number in range(OTHER_RULES)]
    with Cluster(address) as cluster:
        AccessAdmin(cluster).create_acls([*others, rule(f"User:{USER.user}", TOPIC)])


def _cost_us(broker: BrokerProcess, address: str, access: Access, connections: int, scale: Scale) -> float:
    load = partial(requests.produce, topic=TOPIC, partitions=1, connections=connections, acks=1, access=access)
    measured = run(broker, partial(load, address=address, seconds=scale.seconds))
    # The kernel counts CPU time in ticks: a short measurement may have had none.
    return max(measured.broker.total_s, 0.01) / measured.outcomes[0].records * 1e6


ACCESS = Case(
    "access",
    f"as requests-os with acks=1: a broker with SASL, {OTHER_RULES:,} ACLs and the audit log, and one without",
    _measure,
    settings=SETTINGS,
    why_headwater_only="it compares the broker with itself",
)
