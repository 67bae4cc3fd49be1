"""State that a client can make a broker keep, by the thousand: the cost of each item, and the limiting setting."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from headwater.errors import ErrorCode
from headwater.protocol.messages.groups.join_group import JoinGroupResponse
from headwater.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.faults.hostile.flooding import DESCRIPTORS_BESIDE, raise_descriptors
from tests.faults.hostile.watching import Bystander, watched
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_groups import Place, commit, find, join_request, member_heartbeat
from tests.support.kafka.raw_transactions import ask_init

TOPIC = "shared"
RETRIABLE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
# One-time memory of a broker, beside the memory per item.
FREE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Kind:
    """`add` gives an error code for the thing of that number."""

    add: Callable[[RawClient, int], int]
    bytes_max: int
    setting: str | None = None
    refusal: ErrorCode = ErrorCode.NONE
    # How many items that the setting counts exist before the test.
    before: int = 0


class Crowd(NamedTuple):
    things: int
    bytes_each: int


def _topic(client: RawClient, number: int) -> int:
    asked = CreatableTopic(name=f"{number:0>200}", num_partitions=1, replication_factor=1)
    return client.ask(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 7).topics[0].error_code


def _group(client: RawClient, number: int) -> int:
    return commit(client, f"{number:0>200}", Place(), TOPIC, 1, metadata="m" * 100)


def _offset(client: RawClient, number: int) -> int:
    return commit(client, "wide", Place(), TOPIC, 1, partition=number, metadata="m" * 100)


def ask_for_member_id(client: RawClient, _: int) -> int:
    """Ask for a member id, and never join with it."""
    told = client.ask(join_request("joining"), JoinGroupResponse, 9)
    return ErrorCode.NONE if told.error_code == ErrorCode.MEMBER_ID_REQUIRED else told.error_code


def _member(client: RawClient, number: int) -> int:
    return member_heartbeat(client, "consumers", Place(f"{number:0>36}", 0), topics=[TOPIC], owned={}).error_code


def _transactional_id(client: RawClient, number: int) -> int:
    return ask_init(client, f"{number:0>200}").error_code


def _producer(client: RawClient, number: int) -> int:
    batch = batch_of(b"v", producer_id=number, producer_epoch=0, base_sequence=0)
    return client.produce(TOPIC, batch, acks=1).error_code


FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
KINDS: Mapping[str, Kind] = {
    "topics": Kind(_topic, 24_000, "headwater.topics.max", ErrorCode.POLICY_VIOLATION, before=3),
    "groups": Kind(_group, 6_000, "headwater.groups.max", FULL),
    "offsets": Kind(_offset, 2_000),
    "clients that only ask for a member id": Kind(ask_for_member_id, 4_000),
    "members": Kind(_member, 16_000, "group.consumer.max.size", FULL),
    "transactional ids": Kind(_transactional_id, 6_000, "headwater.transactions.max", ErrorCode.POLICY_VIOLATION),
    "producers": Kind(_producer, 2_000),
}


def crowd(directory: Path, name: str, count: int) -> Crowd:
    """Create this many items, and then one more than the setting allows, while a bystander is served."""
    kind = KINDS[name]
    raise_descriptors(10 * count + DESCRIPTORS_BESIDE if name == "topics" else DESCRIPTORS_BESIDE)
    # This test is about memory, so disk flushes would only cost time.
    settings = {"headwater.flush": "os"}
    if kind.setting is not None:
        settings[kind.setting] = str(count + kind.before)
    with watched(directory, settings) as broker, Bystander(broker) as bystander, RawClient(broker) as client:
        client.create(TOPIC, partitions=count if name == "offsets" else 1)
        find(client, "any")  # Creates __consumer_offsets.
        add = partial(patiently, kind.add, client)
        assert add(0) == ErrorCode.NONE
        before = broker.memory_bytes()
        for number in range(1, count):
            assert (number, add(number)) == (number, ErrorCode.NONE)
        taken = broker.memory_bytes() - before
        if kind.setting is not None:
            assert add(count) == kind.refusal
        bystander.check()
    each = max(taken - FREE_BYTES, 0) // count
    assert each <= kind.bytes_max, f"each of {count} {name} takes {each} bytes"
    return Crowd(count, taken // count)


def patiently(add: Callable[[RawClient, int], int], client: RawClient, number: int) -> int:
    """Repeat a request while the log of its group or transaction is being loaded."""
    code = add(client, number)
    while code in RETRIABLE:
        code = add(client, number)
    return code
