"""The events that a test member records, with a scripted client."""

import json
from collections.abc import Mapping, Sequence

import pytest

from tests.support.groups.clients import CLIENTS, Options
from tests.support.groups.member import Member

OPTIONS: Options = {
    "client": "played",
    "bootstrap_servers": "",
    "topic": "t",
    "group": "g",
    "name": "ann",
    "session_timeout_ms": 60_000,
    "heartbeat_interval_ms": 1000,
}


class PlayedClient:
    def __init__(self) -> None:
        self.current_generation = -1

    def generation(self) -> int:
        return self.current_generation

    def poll(self) -> Mapping[int, Sequence[int]]:
        return {0: [5, 6]}

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        return None

    def close(self) -> None:
        pass


def test_a_generation_counts_from_its_assignment_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker that ends between JoinGroup and SyncGroup hands out the same generation number twice."""
    client = PlayedClient()
    monkeypatch.setitem(CLIENTS, "played", lambda options, owner: client)  # type: ignore[arg-type]
    member = Member(OPTIONS)

    client.current_generation = 3
    member.assigned([0])
    client.current_generation = 4
    member._process(client.poll())
    client.current_generation = -1
    member.lost([0])
    client.current_generation = 4
    member.assigned([0])
    member._process(client.poll())
    member.revoked([0])

    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(event, generation) for event, _, generation, *_ in written] == [
        ("assigned", 3),
        ("processed", 3),
        ("lost", 3),
        ("assigned", 4),
        ("processed", 4),
        ("revoked", 4),
    ]
