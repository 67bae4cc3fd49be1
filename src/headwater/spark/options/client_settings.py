"""Settings of Kafka's clients, which programs for Spark's Kafka source give with the prefix `kafka.`.

Settings that contradict what Spark does are refused, as by Spark's Kafka source. Settings that have an effect there and
none here are warned about, so that a program which is moved does not lose them unnoticed.
"""

import logging
from collections.abc import Mapping
from typing import Final

from headwater.client.security.security import about_security
from headwater.errors import ConfigError
from headwater.spark.options.options import CLIENT_PREFIX, Options

_log = logging.getLogger(__name__)

_BYTES: Final = "keys and values are bytes; cast them, or set 'key.format' and 'value.format'"
_REFUSED_READS: Final = {
    "auto.offset.reset": "set 'startingOffsets' to 'earliest' or 'latest'",
    "enable.auto.commit": "the query's checkpoint says what is processed",
    "interceptor.classes": "no class in Java can see the records",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
}
_CAST: Final = "keys and values are strings or bytes; cast them before the write"
_REFUSED_WRITES: Final = {"key.serializer": _CAST, "value.serializer": _CAST}
_ALWAYS: Final = frozenset({"bootstrap.servers", "client.id"})
_EFFECTIVE_READS: Final = _ALWAYS | {"isolation.level", "group.id"}
_EFFECTIVE_WRITES: Final = _ALWAYS | {"acks", "compression.type"}
_HINTS: Final = {
    "partitioner.class": "a row goes where Kafka's default partitioner puts its key, or where its column 'partition' "
    "says",
    "transactional.id": "writes are exactly once without it",
    "enable.idempotence": "writes are exactly once without it",
}
# Options of Spark's Kafka source and sink about what does not exist here.
_WITHOUT_MEANING: Final = (
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)


def refuse_for_reads(options: Options) -> None:
    _refuse(options, _REFUSED_READS)


def refuse_for_writes(options: Options) -> None:
    _refuse(options, _REFUSED_WRITES)


def warn_of_reads(given: Mapping[str, str]) -> None:
    _warn(given, _EFFECTIVE_READS)


def warn_of_writes(given: Mapping[str, str]) -> None:
    _warn(given, _EFFECTIVE_WRITES)


def _refuse(options: Options, refused: Mapping[str, str]) -> None:
    settings = options.client_settings()
    for name, reason in refused.items():
        if name in settings:
            raise ConfigError(f"option {CLIENT_PREFIX + name!r} cannot be set: {reason}")


def _warn(given: Mapping[str, str], effective: frozenset[str]) -> None:
    options = {name.lower(): name for name in given}
    settings = {name.removeprefix(CLIENT_PREFIX): "" for name in options if name.startswith(CLIENT_PREFIX)}
    for name in sorted(settings.keys() - effective - about_security(settings).keys()):
        hint = f": {_HINTS[name]}" if name in _HINTS else ""
        _log.warning("option %r has no effect in format('headwater')%s", CLIENT_PREFIX + name, hint)
    for name in _WITHOUT_MEANING:
        if name.lower() in options:
            _log.warning("option %r has no effect in format('headwater')", name)
