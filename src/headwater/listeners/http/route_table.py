"""Everything that is served over HTTP: one line for each area, loaded when the first HTTP listener starts."""

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from headwater.listeners.http.router import Area

# Modules that have an `AREA`.
AREAS: Final = (
    "health.area",
    "openapi",
    "v1.topics",
    "v1.records",
    "v1.event_stream",
    "v1.groups",
    "v1.queues",
    "v1.dead_letters",
    "v1.schedules",
    "v1.transactions",
    "v1.access",
    "v1.cluster",
    "websocket.area",
    "registry.area",
)


# Only where it is asked for.
REST_PROXY: Final = "proxy.area"


def load_areas(*, with_rest_proxy: bool = False) -> Iterator[Area]:
    for name in (*AREAS, REST_PROXY) if with_rest_proxy else AREAS:
        yield import_module(f"headwater.listeners.http.{name}").AREA
