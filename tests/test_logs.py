"""The process's own log: text for people and JSON for machines, always one line per event."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from headwater.logs import configure

logger = logging.getLogger("headwater.broker.partition")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_format_is_one_object_per_line_with_the_extra_fields() -> None:
    stream = io.StringIO()
    configure("auto", "info", stream)
    logger.warning("cut %d bytes", 7, extra={"topic": "orders", "partition": 0, "path": object})

    entry = json.loads(stream.getvalue())
    assert (entry["level"], entry["logger"], entry["message"]) == ("warning", logger.name, "cut 7 bytes")
    assert (entry["topic"], entry["partition"], entry["path"]) == ("orders", 0, "<class 'object'>")
    assert entry["time"].endswith("Z")


def test_extra_fields_cannot_displace_those_of_the_entry() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    logger.info("true", extra={"level": "forged", "time": "never"})
    entry = json.loads(stream.getvalue())
    assert entry["level"] == "info"
    assert entry["time"] != "never"


@pytest.mark.parametrize("value", ["lone \udcff surrogate", 2**70])
def test_a_value_that_json_cannot_hold_does_not_lose_the_line(value: object) -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    logger.info("kept", extra={"value": value})
    assert json.loads(stream.getvalue())["value"] == value


@pytest.mark.parametrize("form", ["json", "human"])
def test_an_exception_comes_with_its_trace(form: str) -> None:
    stream = io.StringIO()
    configure(form, "info", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("failed")
    assert "ValueError: broken" in stream.getvalue()
    if form == "json":
        assert json.loads(stream.getvalue())["exception"].startswith("Traceback")


def test_text_in_a_file_has_the_extra_fields_and_no_colour() -> None:
    stream = io.StringIO()
    configure("human", "info", stream)
    logger.info("opened", extra={"topic": "orders"})
    assert stream.getvalue().endswith(f" INFO    {logger.name}: opened topic=orders\n")
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_coloured_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    configure("auto", "info", stream)
    logger.error("failed")
    assert "\x1b[31mERROR  \x1b[0m" in stream.getvalue()


def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure("auto", "info", stream)
    logger.error("failed")
    assert "\x1b" not in stream.getvalue()


def test_text_from_a_client_cannot_forge_a_log_line() -> None:
    stream = io.StringIO()
    configure("human", "info", stream)
    logger.info("client %s", "x\n2030-01-01 ERROR forged\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_the_level_decides_what_is_logged_and_can_change() -> None:
    stream = io.StringIO()
    configure("json", "warning", stream)
    logger.info("unheard")
    configure("json", "debug", stream)
    logger.debug("heard")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["heard"]
