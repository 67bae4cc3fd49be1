"""Projects that `headwater pipeline init` writes, some of them with a fault, and orders for them."""

import json
from pathlib import Path

from headwater.pipelines import template
from tests.support.cli.commands import Commands

# One core is enough for these small projects.
QUICK = ("--master", "local[1]")


def order(order_id: int, product: str, quantity: int, minute: int) -> str:
    moment = f"2025-06-01T12:{minute:02}:30Z"
    return json.dumps(
        {"order_id": order_id, "product": product, "quantity": quantity, "price": 2.5, "ordered_at": moment}
    )


def feed(commands: Commands, topic: str) -> None:
    """Two orders, one of them with quantity 0."""
    commands.succeed("topic", "create", topic, "--partitions", "1")
    commands.succeed("produce", topic, "--quiet", typed=f"{order(1, 'tea', 2, 0)}\n{order(2, 'tea', 0, 0)}".encode())


def project(directory: Path, name: str, topic: str, before: str = "", after: str = "") -> str:
    """A new project that reads the topic, with one text of its definitions replaced to plant a fault."""
    template.write(directory, name)
    definitions = directory / name / "transformations" / "orders.py"
    text = definitions.read_text()
    assert before in text
    text = text.replace(before, after) if before else text
    definitions.write_text(text.replace('"subscribe", "orders"', f'"subscribe", "{topic}"'))
    return str(directory / name)
