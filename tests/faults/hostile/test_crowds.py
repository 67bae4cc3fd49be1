"""Thousands of topics, groups, members, transactional ids and producers: each costs little, and settings limit them."""

from pathlib import Path

import pytest

from headwater.errors import ErrorCode
from tests.faults.hostile.crowding import FULL, KINDS, ask_for_member_id, crowd, patiently
from tests.faults.hostile.watching import MIB, Bystander, watched
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import find

pytestmark = pytest.mark.slow

COUNTS = {"topics": 500, "members": 500}
COUNT = 2000


@pytest.mark.parametrize("name", KINDS)
def test_each_of_many_items_costs_little_memory_and_their_number_is_limited(tmp_path: Path, name: str) -> None:
    count = COUNTS.get(name, COUNT)
    assert crowd(tmp_path, name, count).things == count


def test_unused_member_ids_are_limited_by_the_memory_of_groups(tmp_path: Path) -> None:
    settings = {"headwater.groups.memory.max.bytes": str(MIB)}
    with watched(tmp_path, settings) as broker, Bystander(broker), RawClient(broker) as client:
        find(client, "any")
        codes = [patiently(ask_for_member_id, client, number) for number in range(COUNT)]
    given = codes.count(ErrorCode.NONE)
    assert 0 < given < COUNT
    assert codes[given:] == [FULL] * (COUNT - given)
