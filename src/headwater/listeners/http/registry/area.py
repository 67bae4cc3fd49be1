"""The schema registry over HTTP: Confluent's API, with its media types, bodies and error codes."""

from headwater.listeners.http.registry.answers import render_error
from headwater.listeners.http.registry.routes import compatibility, contexts, schemas, settings, subjects, versions
from headwater.listeners.http.router import Area

AREA = Area(
    "registry",
    (
        *subjects.OPERATIONS,
        *versions.OPERATIONS,
        *schemas.OPERATIONS,
        *compatibility.OPERATIONS,
        *settings.OPERATIONS,
        *contexts.OPERATIONS,
    ),
    render_error,
)
