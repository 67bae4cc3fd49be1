"""What all Kafka listeners of a node share."""

import asyncio

from headwater.broker.broker import Broker
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.reply_templates import ReplyTemplates


class KafkaServices:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.fetch_sessions = FetchSessions(broker.config.max_incremental_fetch_session_cache_slots, broker.clock)
        self.reply_templates = ReplyTemplates()
        # Requests that change something run to their end, even if their client has gone away.
        self.tasks: set[asyncio.Task[None]] = set()
