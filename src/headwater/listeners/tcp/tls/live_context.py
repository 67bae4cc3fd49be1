"""The TLS of one listener while the broker runs: its certificate is loaded again when the settings or the files change.

Connections keep the certificate that they began with. A new one that cannot be used leaves the old one in place.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.config.listeners import ListenerAddress
from headwater.config.live import LiveConfig
from headwater.errors import ConfigError
from headwater.listeners.tcp.tls.server_context import ServerContext, make_server_context, shown_time

logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000
EXPIRY_WARNING_MS = 30 * _DAY_MS

# What changes when a file is written or replaced.
_Stamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class LiveContext:
    def __init__(self, live_config: LiveConfig, address: ListenerAddress, clock: Clock) -> None:
        """Raises ConfigError if the certificate cannot be used."""
        self._address = address
        self._clock = clock
        self._use(live_config.current)
        self.current = self._make()
        # Of the files as they were loaded, and as they were seen last.
        self._loaded = self._seen = _stamps(self.current.files)
        self._warn_at_ms = 0
        live_config.follow(self._use_config)

    @property
    def expires_in_s(self) -> float:
        return self.current.not_after_s - self._clock.now_ms() / 1000

    def check_files(self) -> None:
        """Load the files again if they have changed. A certificate and its key may be written one after the other, so
        they have to stand still from one call to the next."""
        stamps = _stamps(self.current.files)
        if stamps != self._loaded and stamps == self._seen:
            self._reload(stamps)
        self._seen = stamps

    def warn_of_expiry(self) -> None:
        """Once a day, from thirty days before."""
        now_ms = self._clock.now_ms()
        left_ms = self.current.not_after_s * 1000 - now_ms
        if left_ms > EXPIRY_WARNING_MS or now_ms < self._warn_at_ms:
            return
        self._warn_at_ms = now_ms + _DAY_MS
        when = shown_time(self.current.not_after_s)
        if left_ms > 0:
            logger.warning("the certificate of listener %s expires on %s", self._address.name, when)
        else:
            logger.error("the certificate of listener %s expired on %s: clients refuse it", self._address.name, when)

    def _use_config(self, config: BrokerConfig) -> None:
        if config is not self._config:
            self._use(config)
            self._reload(_stamps(self.current.files))

    def _use(self, config: BrokerConfig) -> None:
        self._config = config
        # As they are for this listener.
        self.config = config.of_listener(self._address.name)

    def _reload(self, stamps: _Stamps) -> None:
        # Not tried again before the files or the settings change once more.
        self._loaded = stamps
        try:
            self.current = self._make()
        except ConfigError as error:
            name = self._address.name
            logger.error("listener %s keeps its certificate, because the new one is refused: %s", name, error)
            return
        self._loaded = _stamps(self.current.files)
        self._warn_at_ms = 0
        logger.info(
            "the certificate of listener %s is loaded again, valid until %s",
            self._address.name,
            shown_time(self.current.not_after_s),
        )

    def _make(self) -> ServerContext:
        return make_server_context(self._config, self._address, self._clock.now_ms())


def _stamps(files: Sequence[Path]) -> _Stamps:
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
