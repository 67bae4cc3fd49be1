import json

from tests.support.cli.commands import Commands


def test_the_table_shows_counts_and_means_and_leaves_out_long_families(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name, "--partitions", "50")
    shown = commands.succeed("metrics").lines
    assert shown[0].split() == ["NAME", "LABELS", "VALUE"]
    rows = {line.split()[0] for line in shown}
    assert {"headwater_flush_seconds_count", "headwater_flush_seconds_mean", "headwater_connections"} <= rows
    assert not any("_bucket" in row for row in rows)
    assert any("numbers; name it to see them" in line for line in shown)


def test_a_prefix_chooses_metrics_and_shows_all_of_them(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name, "--partitions", "50")
    shown = commands.succeed("metrics", "headwater_partition_size_bytes").lines[1:]
    assert len([line for line in shown if f"topic={name}," in line]) == 50
    assert all(line.startswith("headwater_partition_size_bytes") for line in shown)
    assert commands.succeed("metrics", "nothing_of_that_name", "--format", "json").rows == []


def test_json_has_labels_as_separate_fields(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name)
    rows = json.loads(commands.succeed("metrics", "headwater_requests_total", "--format", "json").output)
    (row,) = [row for row in rows if row["labels"] == {"api": "CreateTopics"}]
    assert row["name"] == "headwater_requests_total"
    assert row["kind"] == "counter"
    assert isinstance(row["value"], int)


def test_scrapers_get_the_prometheus_text_format(commands: Commands) -> None:
    shown = commands.succeed("metrics", "headwater_flush", "--format", "prometheus").lines
    assert "# TYPE headwater_flush_seconds histogram" in shown
    assert any(line.startswith('headwater_flush_seconds_bucket{le="+Inf"} ') for line in shown)
