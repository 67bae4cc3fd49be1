"""A refused request leaves nothing in memory: neither its bytes nor objects made before the refusal."""

from collections.abc import Callable
from pathlib import Path

from headwater.protocol.messages.groups.join_group import JoinGroupResponse
from tests.faults.hostile.watching import MIB, Bystander, watched
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_groups import Place, find, join_request, member_heartbeat, sync

LARGE = bytes(900_000)
TIMES = 100

REFUSED: dict[str, Callable[[RawClient], int]] = {
    "a batch with a broken checksum": lambda client: client.produce("t", batch_of(LARGE)[:-1] + b"x").error_code,
    "a member with a session of weeks": lambda client: (
        client.ask(
            join_request("g", protocols={"range": LARGE}, session_timeout_ms=2**31 - 1), JoinGroupResponse, 9
        ).error_code
    ),
    "an assignment by a stranger": lambda client: sync(client, "g", Place("nobody", 3), {"m": LARGE}).error_code,
    "a heartbeat of a stranger": lambda client: (
        member_heartbeat(client, "h", Place("nobody", 5), topics=["x" * 200] * 3000, owned={}).error_code
    ),
}


def test_a_refused_request_is_freed_after_its_response(tmp_path: Path) -> None:
    with watched(tmp_path) as broker, Bystander(broker), RawClient(broker) as client:
        client.create("t")
        find(client, "g")
        for what, refused in REFUSED.items():
            assert refused(client)
            before = broker.memory_bytes()
            for _ in range(TIMES):
                assert refused(client)
            grown = broker.memory_bytes() - before
            assert grown < 16 * MIB, f"{what} leaves {grown // TIMES} bytes"
