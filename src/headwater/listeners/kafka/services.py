"""What all Kafka listeners of a node share: the API table, fetch sessions, reply templates, running requests."""

import asyncio
from typing import NamedTuple

from headwater.broker.broker import Broker
from headwater.broker.measurements import RequestMeasurement
from headwater.listeners.kafka.api_table import BY_KEY, Api
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.reply_templates import ReplyTemplates


class ServedApi(NamedTuple):
    """An API, and its measurements in this broker."""

    api: Api
    measured: RequestMeasurement


class KafkaServices:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.apis = {key: ServedApi(api, broker.measurements.request(api.name)) for key, api in BY_KEY.items()}
        self.fetch_sessions = FetchSessions(broker.config.max_incremental_fetch_session_cache_slots, broker.clock)
        self.reply_templates = ReplyTemplates()
        # Requests that change something run to their end, even if their client has gone away.
        self.tasks: set[asyncio.Task[None]] = set()
