"""docs/security.md: its commands are run and its code too, its settings are read, and its table names every API."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import pytest
from benchmarks.ports import port_of, reserved_port

from headwater.broker.audit.event import EventType
from headwater.config.loader import load
from headwater.listeners.http.route_table import load_areas
from headwater.listeners.kafka.api_table import APIS

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
PORT = "9093"
ANYTHING = "…"


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for marked, text in found if marked == language]


def steps() -> Iterator[tuple[str, list[str]]]:
    """Commands with the output that the page shows."""
    for block in blocks(""):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = step.splitlines()
            yield command, output


def fits(shown: list[str], output: str) -> bool:
    """Whether the output is what the page shows, where `…` stands for anything."""
    pattern = "\n".join(shown)
    expression = ".*".join(re.escape(part) for part in pattern.split(ANYTHING))
    # Tables are as wide as their longest cell.
    expression = re.sub(r"(\\ ){2,}", r"\\s+", expression)
    return re.fullmatch(expression, output.strip(), re.DOTALL) is not None


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return {**kept, "PATH": f"{sysconfig.get_path('scripts')}:{kept['PATH']}", "HOME": str(tmp_path)}


def test_a_reader_gets_from_nothing_to_a_secured_broker(tmp_path: Path, environment: Mapping[str, str]) -> None:
    reserved = reserved_port()
    port, variables = (
        str(port_of(reserved)),
        {**environment, "HEADWATER_DELEGATION_TOKEN_SECRET_KEY": "long and random"},
    )
    broker: subprocess.Popen[str] | None = None
    try:
        for command, shown in steps():
            output = [line.replace(PORT, port) for line in shown]
            if "TOKEN_ID" in command:
                found = re.search(r'username="([^"]+)"', (tmp_path / "job.properties").read_text())
                assert found is not None
                command = command.replace("TOKEN_ID", found[1])
            if command.startswith("pip install"):
                continue
            if command.startswith("cat "):
                (tmp_path / command.removeprefix("cat ")).write_text("\n".join(output) + "\n")
            elif command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                variables[name] = value
            elif command == "headwater serve":
                broker = subprocess.Popen(
                    ["headwater", "serve"], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=variables
                )
                assert broker.stdout is not None
                assert fits(output, broker.stdout.readline())
            else:
                done = subprocess.run(
                    ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, env=variables, check=False
                )
                assert fits(output, done.stderr + done.stdout), f"{command}\n{done.stderr}{done.stdout}"
        run_code(tmp_path, environment, port)
        produced = subprocess.run(
            ["headwater", "consume", "orders", "--from", "beginning", "--max", "2"],
            capture_output=True,
            cwd=tmp_path,
            env=variables,
            check=True,
        )
        assert produced.stdout == b'{"item":"tea"}\n{"item":"rice"}\n'
    finally:
        reserved.close()
        if broker is not None:
            broker.kill()
            broker.communicate()


def run_code(directory: Path, environment: Mapping[str, str], port: str) -> None:
    for code in blocks("python"):
        subprocess.run(
            [sys.executable, "-c", code.replace(PORT, port)], cwd=directory, env=environment, check=True, timeout=120
        )


def test_the_settings_of_the_page_are_accepted(tmp_path: Path) -> None:
    texts = blocks("toml")
    assert len(texts) == 2
    for text in texts:
        file = tmp_path / "headwater.toml"
        file.write_text(text)
        assert load({}, {}, file).config.is_audited


def rows_after(heading: str) -> list[list[str]]:
    section = PAGE.partition(heading)[2].partition("\n##")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_every_request_and_every_kind_of_event_has_its_row() -> None:
    requests = [name.strip() for row in rows_after("### What is checked where\n") for name in row[0].split(",")]
    kinds = [name.strip(" `") for row in rows_after("## Audit\n") for name in row[0].split(",")]

    assert sorted(requests) == sorted(api.name for api in APIS)
    assert sorted(kinds) == sorted(kind.value for kind in EventType)


def test_every_operation_of_http_has_its_row() -> None:
    rows = rows_after("### What is checked over HTTP\n")
    shown = [name for row in rows for name in re.findall(r"`([A-Z]+ [^`]+)`", row[0])]
    served = [each.name for area in load_areas(with_rest_proxy=True) for each in area.operations]

    assert sorted(shown) == sorted(served)


def test_every_setting_and_command_that_the_page_names_exists() -> None:
    from headwater.cli.main import COMMANDS
    from headwater.config.broker import BrokerConfig
    from headwater.config.declaration import settings_of

    known = settings_of(BrokerConfig).keys()
    tables = chain.from_iterable(re.findall(r"`([a-z0-9.]+\.[a-z0-9.]+)`", cell) for cell in PAGE.split("\n"))
    named = {name for name in tables if name.startswith(("ssl.", "sasl.", "headwater.", "connection", "delegation."))}
    files = {"headwater.toml", "headwater.testing"}

    assert named - files <= known
    assert set(re.findall(r"headwater ([a-z]+)", PAGE)) - {"serve"} <= COMMANDS.keys() | {"config"}
