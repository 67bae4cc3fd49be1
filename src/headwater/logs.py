"""The process's own log, on standard error: coloured text for people, JSON lines for machines.

Fields that a call passes in `extra` stay separate fields and never become part of the message.
"""

import json
import logging
import os
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from headwater.printable import printable

# Attributes that the logging module itself sets on a record; all others came in `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {
    logging.DEBUG: "2",
    logging.INFO: "32",
    logging.WARNING: "33",
    logging.ERROR: "31",
    logging.CRITICAL: "1;31",
}


def configure(format: str = "auto", level: str = "info", stream: TextIO = sys.stderr) -> None:  # noqa: A002
    """Send all logging to `stream` (standard error), and remove the handlers that were there before."""
    terminal = stream.isatty()
    human = format == "human" or (format == "auto" and terminal)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        HumanFormatter(colour=terminal and not os.environ.get("NO_COLOR")) if human else JsonFormatter()
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class HumanFormatter(logging.Formatter):
    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        if self._colour:
            level = f"\x1b[{_COLOURS.get(record.levelno, '0')}m{level}\x1b[0m"
        fields = "".join(f" {name}={value}" for name, value in _extra(record).items())
        # A message may quote a client's input, which must not be able to forge a second log line.
        text = printable(f"{record.getMessage()}{fields}")
        line = f"{_time(record).isoformat(sep=' ', timespec='milliseconds')} {level} {record.name}: {text}"
        trace = _trace(record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _time(record).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _extra(record).items():
            entry.setdefault(name, value)
        trace = _trace(record)
        if trace:
            entry["exception"] = trace
        try:
            return orjson.dumps(entry, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:
            # orjson refuses lone surrogates and integers beyond 64 bits. They are rare, but must not lose a log line.
            return json.dumps(entry, default=str)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC).astimezone()


def _trace(record: logging.LogRecord) -> str:
    return "".join(traceback.format_exception(*record.exc_info)).rstrip() if record.exc_info else ""
