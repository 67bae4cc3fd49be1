"""The listeners that speak Kafka's protocol, one for each address in `listeners`."""

import logging
from collections.abc import Collection, Iterator

from headwater.broker.broker import Broker
from headwater.config.listeners import ListenerAddress
from headwater.endpoint import Endpoint
from headwater.listeners.kafka.conversation import KafkaConversation, KafkaServices
from headwater.listeners.listener import Listener
from headwater.listeners.tcp.connection import Converse
from headwater.listeners.tcp.listener import TcpListener
from headwater.listeners.tcp.pool import ConnectionPool
from headwater.security.mechanisms import OAUTHBEARER, PLAIN

logger = logging.getLogger(__name__)

NAME = "kafka"


def kafka_listeners(broker: Broker, pool: ConnectionPool) -> Iterator[Listener]:
    services = KafkaServices(broker)
    for number, address in enumerate(broker.config.listener_addresses):
        # The first listener is just `kafka`, whatever the settings name it.
        name = f"{NAME}.{address.name}" if number else NAME
        yield _listener(name, address, services, pool)


def _listener(name: str, address: ListenerAddress, services: KafkaServices, pool: ConnectionPool) -> Listener:
    def advertise(bound: Endpoint) -> None:
        services.broker.leadership.advertise(address.name, address.advertised or bound)

    converse = _authenticating if address.protocol.is_sasl else _anonymous
    handshakes = pool.handshakes(address) if address.protocol.is_encrypted else None
    return TcpListener(name, address.bound, pool, converse(address, services, pool), advertise, handshakes)


def _anonymous(address: ListenerAddress, services: KafkaServices, pool: ConnectionPool) -> Converse:
    return lambda connection: KafkaConversation(services, address.name, connection, pool.memory)


def _authenticating(address: ListenerAddress, services: KafkaServices, pool: ConnectionPool) -> Converse:
    # Late import: a broker without SASL needs none of it.
    from headwater.listeners.kafka.sasl.gate import AuthenticatingConversation  # noqa: PLC0415
    from headwater.listeners.kafka.sasl.listener import SaslListener  # noqa: PLC0415

    _warn_of_clear_text(address, services.broker.config.of_listener(address.name).sasl_enabled_mechanisms)
    listener = SaslListener(services.broker, address.name, services.sasl_measurements)
    pool.on_sweep(listener.sweep)
    return lambda connection: AuthenticatingConversation(services, listener, connection, pool.memory)


def _warn_of_clear_text(address: ListenerAddress, mechanisms: Collection[str]) -> None:
    if address.protocol.is_encrypted or address.bound.loopback:
        return
    for mechanism in (PLAIN, OAUTHBEARER):
        if mechanism in mechanisms:
            logger.warning(
                "listener %s: clients of other machines send their secrets unencrypted (%s); SASL_SSL encrypts them",
                address.name,
                mechanism,
            )
