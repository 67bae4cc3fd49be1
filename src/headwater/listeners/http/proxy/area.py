"""The REST proxy: Confluent's API (v2), with its media types, bodies and error codes."""

from headwater.listeners.http.proxy.answers import render_error
from headwater.listeners.http.proxy.routes import assignments, brokers, consumers, offsets, produce, records, topics
from headwater.listeners.http.router import Area

AREA = Area(
    "rest proxy",
    (
        *topics.OPERATIONS,
        *produce.OPERATIONS,
        *brokers.OPERATIONS,
        *consumers.OPERATIONS,
        *assignments.OPERATIONS,
        *offsets.OPERATIONS,
        *records.OPERATIONS,
    ),
    render_error,
)
