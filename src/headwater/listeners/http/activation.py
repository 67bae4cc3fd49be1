"""HTTP, if the settings ask for it. A broker that serves none loads nothing else of this folder."""

from collections.abc import Iterator

from headwater.broker.broker import Broker
from headwater.errors import ConfigError
from headwater.listeners.listener import Listener
from headwater.listeners.tcp.pool import ConnectionPool

_PACKAGES = {"httptools", "msgspec", "websockets"}


def http_listeners(broker: Broker, pool: ConnectionPool) -> Iterator[Listener]:
    if not broker.config.http_addresses:
        return
    try:
        from headwater.listeners.http.listener import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ConfigError(
            f"headwater.http.listeners needs the package {error.name}: pip install 'headwater[http]'"
        ) from None
    yield from serve(broker, pool)
