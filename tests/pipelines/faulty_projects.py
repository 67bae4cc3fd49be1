"""Projects whose definitions are sound, and others that have one fault each."""

import json
from collections.abc import Sequence
from pathlib import Path

from headwater.pipelines import template
from tests.support.cli.commands import Commands

# One core: what is tested is small.
QUICK = ("--master", "local[1]")


def order(order_id: int, product: str, quantity: int, minute: int) -> str:
    moment = f"2025-06-01T12:{minute:02}:30Z"
    return json.dumps(
        {"order_id": order_id, "product": product, "quantity": quantity, "price": 2.5, "ordered_at": moment}
    )


def faulty_projects(commands: Commands, directory: Path) -> dict[str, Sequence[str]]:
    """What to ask of each, by its name."""
    changes = {
        "sound": ("", ""),
        "misspelt": ("from_json(col(", "from_json(colour("),
        "lost": ('readStream.table("orders")', 'readStream.table("odrers")'),
        "failing": ("quantity > 0 AND", "assert_true(quantity > 0, 'no quantity') IS NULL AND"),
    }
    topic = "faulty-orders"
    commands.succeed("topic", "create", topic, "--partitions", "1")
    commands.succeed("produce", topic, "--quiet", typed=f"{order(1, 'tea', 2, 0)}\n{order(2, 'tea', 0, 0)}".encode())
    for name, (before, after) in changes.items():
        template.write(directory, name)
        definitions = directory / name / "transformations" / "orders.py"
        text = definitions.read_text().replace(before, after) if before else definitions.read_text()
        definitions.write_text(text.replace('"subscribe", "orders"', f'"subscribe", "{topic}"'))
    steps: dict[str, Sequence[str]] = {
        name: ["pipeline", "validate", str(directory / name), *QUICK] for name in changes
    }
    # Spark tries a flow three times, with pauses in between.
    soon = ("--conf", "spark.sql.pipelines.execution.watchdog.minRetryTime=1s")
    steps["failing"] = ["pipeline", "run", str(directory / "failing"), "--once", *QUICK, *soon]
    return steps
