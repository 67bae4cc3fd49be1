"""A disk that is full or broken under the state of share groups: what was not confirmed did not happen."""

from pathlib import Path

import pytest

from headwater.coordination.shares.commands import Acknowledgement
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.errors import ErrorCode, HeadwaterError
from tests.broker.shares.dead_letter_cases import brief, queue, settled, until
from tests.broker.shares.share_commands import ACCEPT, ANN, SETTINGS, Shared
from tests.support.broker.embedded_broker import run, running
from tests.support.broker.faulty_disk import FULL, FaultyDisk

STATE = "__share_group_state"


async def acknowledge(found: Shared, offset: int, kind: int) -> object:
    said = [Acknowledgement(offset, offset, [kind])]
    return await run(found.broker.shares.acknowledge(found.id, ANN, said, is_renewal=False).wait())


@pytest.mark.parametrize("kind", [ACCEPT, AcknowledgeType.REJECT])
async def test_an_acknowledgement_that_a_full_disk_refuses(tmp_path: Path, kind: AcknowledgeType) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        orders = await queue(broker)
        await orders.produce(b"a", b"b")
        assert await orders.fetched() == [(0, 1, 1)]
        await orders.acknowledge(0, 0, ACCEPT)
        disk.cursed, disk.write_error = STATE, FULL
        refused = await acknowledge(orders, 1, kind)
        assert isinstance(refused, HeadwaterError)
        assert refused.code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        disk.heal()

        await until(lambda: broker.shares.find(orders.id) is not None)
        # As after a restart: the hold has ended, and its delivery has not counted.
        assert await orders.fetched() == [(1, 1, 1)]
        await orders.acknowledge(1, 1, kind)
        if kind is AcknowledgeType.REJECT:
            await settled(broker, orders)
            assert [each[:3] for each in brief(broker)] == [(b"b", 1, 1)]
        assert await orders.fetched(wait_ms=0) == []
