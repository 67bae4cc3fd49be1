"""What the connections of one SASL listener share: its mechanisms and settings, and the limits of those that have not
authenticated yet."""

from collections import Counter
from typing import TYPE_CHECKING

from headwater.broker.broker import Broker
from headwater.config.broker import BrokerConfig
from headwater.coordination.deadlines import Deadlines
from headwater.listeners.kafka.sasl.measurements import SaslMeasurements
from headwater.listeners.tcp.connection import Connection

if TYPE_CHECKING:
    from headwater.listeners.kafka.sasl.session import SaslSession


class SaslListener:
    def __init__(self, broker: Broker, name: str, measurements: SaslMeasurements) -> None:
        self.name = name
        self.config: BrokerConfig
        self.clock = broker.clock
        self.authentication = broker.access.authentication
        self.audit = broker.access.audit
        self.measurements = measurements
        # When each of them was accepted, in this order.
        self._unauthenticated: dict[Connection, int] = {}
        self._unauthenticated_per_host: Counter[str] = Counter()
        self._sessions: Deadlines[SaslSession] = Deadlines()
        broker.live_config.follow(self._use_config)
        self.mechanisms = self.authentication.mechanisms(self.config, self.config.sasl_enabled_mechanisms)

    def _use_config(self, config: BrokerConfig) -> None:
        self.config = config.of_listener(self.name)

    # -- connections that have not authenticated yet

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more connection of this address."""
        host = connection.peer_host
        if self._unauthenticated_per_host[host] >= self.config.headwater_connections_unauthenticated_max_per_ip:
            return False
        self._unauthenticated[connection] = self.clock.monotonic_ms()
        self._unauthenticated_per_host[host] += 1
        self.measurements.unauthenticated += 1
        return True

    def release(self, connection: Connection) -> None:
        """The connection has authenticated, or has ended."""
        if self._unauthenticated.pop(connection, None) is None:
            return
        self.measurements.unauthenticated -= 1
        host = connection.peer_host
        self._unauthenticated_per_host[host] -= 1
        if not self._unauthenticated_per_host[host]:
            del self._unauthenticated_per_host[host]

    # -- time

    def limit(self, session: "SaslSession", lifetime_ms: int | None) -> None:
        """Let the session expire after `lifetime_ms`; None is never."""
        if lifetime_ms is None:
            self._sessions.cancel(session)
        else:
            self._sessions.set(session, self.clock.monotonic_ms() + lifetime_ms)

    def is_limited(self, session: "SaslSession") -> bool:
        return session in self._sessions

    def sweep(self, now_ms: int) -> None:
        """Called about once a second."""
        timeout_ms = self.config.headwater_authentication_timeout_ms
        for connection, accepted_ms in tuple(self._unauthenticated.items()):
            if now_ms - accepted_ms < timeout_ms:
                break
            self.measurements.timeouts.value += 1
            connection.hang_up(f"it did not authenticate within {timeout_ms} ms (headwater.authentication.timeout.ms)")
        while (due_ms := self._sessions.next_ms()) is not None and due_ms <= now_ms:
            session = self._sessions.next_key()
            assert session is not None, "it has just been due"
            self._sessions.cancel(session)
            session.expire()
