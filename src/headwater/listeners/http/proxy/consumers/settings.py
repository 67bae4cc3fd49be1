"""What a consumer is created with."""

from typing import Any, Final, Literal

import msgspec

from headwater.listeners.http.proxy.answers import INVALID_CONSUMER, ProxyRefusal
from headwater.listeners.http.proxy.embedded_format import EmbeddedFormat

NAME_LENGTH_MAX: Final = 250
_INT_MAX: Final = 2**31 - 1
_TIMEOUT_MS_DEFAULT: Final = 1_000


class ConsumerBody(msgspec.Struct, rename=lambda name: name.replace("_", ".")):
    """A consumer to create. Numbers and booleans may be texts, as some clients send them."""

    name: str = ""
    format: str = "binary"
    auto_offset_reset: str = "earliest"
    auto_commit_enable: bool | str = True
    fetch_min_bytes: int | str = 1
    consumer_request_timeout_ms: int | str = _TIMEOUT_MS_DEFAULT


class ConsumerSettings(msgspec.Struct, frozen=True):
    format: EmbeddedFormat
    offset_reset: Literal["earliest", "latest", "none"]
    commits_by_itself: bool
    bytes_min: int
    timeout_ms: int


def settings_of(body: ConsumerBody) -> ConsumerSettings:
    try:
        embedded = EmbeddedFormat(body.format.lower())
    except ValueError:
        raise _invalid("format", body.format, "one of binary, json, avro, protobuf, jsonschema") from None
    reset = body.auto_offset_reset.lower()
    if reset not in ("earliest", "latest", "none"):
        raise _invalid("auto.offset.reset", body.auto_offset_reset, "one of earliest, latest, none")
    commits: Any = body.auto_commit_enable
    if isinstance(commits, str):
        if commits.lower() not in ("true", "false"):
            raise _invalid("auto.commit.enable", commits, "true or false")
        commits = commits.lower() == "true"
    # -1 stands for the default.
    bytes_min = max(_number("fetch.min.bytes", body.fetch_min_bytes, -1), 1)
    timeout_ms = _number("consumer.request.timeout.ms", body.consumer_request_timeout_ms, 0)
    return ConsumerSettings(embedded, reset, commits, bytes_min, timeout_ms)


def check_name(name: str) -> None:
    """It is a segment of paths."""
    if not name or len(name) > NAME_LENGTH_MAX or "/" in name or name in (".", "..") or not name.isprintable():
        raise ProxyRefusal(
            INVALID_CONSUMER, f"Invalid consumer configuration: a name has 1 to {NAME_LENGTH_MAX} characters, and no /"
        )


def _number(name: str, value: int | str, minimum: int) -> int:
    text = str(value)
    if not (text.removeprefix("-").isdecimal() and len(text) <= 10 and minimum <= int(text) <= _INT_MAX):
        raise _invalid(name, text, f"a number from {minimum} to {_INT_MAX}")
    return int(text)


def _invalid(name: str, value: str, wanted: str) -> ProxyRefusal:
    message = f"Invalid consumer configuration: {name} is {value[:80]!r}, and must be {wanted}"
    return ProxyRefusal(INVALID_CONSUMER, message)
