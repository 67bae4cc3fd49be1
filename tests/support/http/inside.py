"""The broker's side of HTTP, for tests that wait until something has happened there."""

from headwater.listeners.http.listener import HttpListener
from headwater.listeners.http.services import HttpServices
from headwater.testing import Broker


def services_of(broker: Broker) -> HttpServices:
    return next(each._services for each in broker.node.listeners if isinstance(each, HttpListener))
