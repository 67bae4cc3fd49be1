"""`headwater audit query` against a broker that records who did what."""

from collections.abc import Iterator

import pytest

from headwater.testing import Broker
from tests.support.cli.commands import Commands


@pytest.fixture(scope="module")
def audited() -> Iterator[Commands]:
    with Broker({"headwater.audit": "on"}) as broker:
        commands = Commands(broker.bootstrap_servers)
        commands.succeed("topic", "create", "orders")
        commands.succeed("topic", "alter", "orders", "--set", "retention.ms=1000")
        commands("topic", "delete", "nothing", "--yes")
        commands.succeed("topic", "delete", "orders", "--yes")
        yield commands


def types(commands: Commands, *options: str) -> list[str]:
    return [row["type"] for row in commands.succeed("audit", "query", *options, "--format", "json").rows]


def test_events_are_shown_in_their_order(audited: Commands) -> None:
    assert types(audited) == ["cluster.join", "topic.create", "config.change", "topic.delete", "topic.delete"]
    shown = audited.succeed("audit", "query", "--type", "topic.create").lines
    assert shown[0].split()[:4] == ["TIMESTAMP", "TYPE", "USER", "CLIENT_IP"]
    assert "topic 'orders'" in shown[1]


def test_options_choose_events(audited: Commands) -> None:
    assert types(audited, "--type", "topic.") == ["topic.create", "topic.delete", "topic.delete"]
    assert types(audited, "--type", "topic") == []
    assert types(audited, "--user", "ANONYMOUS", "--limit", "1") == ["topic.delete"]
    assert types(audited, "--user", "ann") == []
    assert types(audited, "--result", "failure") == ["topic.delete"]
    assert types(audited, "--since", "1h", "--resource", "orders", "--type", "config.change") == ["config.change"]
    assert types(audited, "--to", "2020-01-01") == []


def test_a_broker_that_records_nothing_says_so(commands: Commands) -> None:
    outcome = commands("audit", "query")
    assert (outcome.code, "headwater.audit" in outcome.error) == (1, True)
