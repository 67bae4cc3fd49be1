"""The client libraries behind one face: what a user of a secured broker does with each."""

import asyncio
import gc
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from tests.support.security.logins import Login

T = TypeVar("T")

TIMEOUT_S = 20


class NotLetIn(Exception):
    """The broker refused the client's credentials or its certificate."""


class SecuredClient(Protocol):
    def __init__(self, login: Login) -> None: ...

    def produce(self, topic: str, values: Sequence[bytes]) -> None: ...

    def produce_in_transaction(self, topic: str, values: Sequence[bytes]) -> None: ...

    def consume(self, topic: str, count: int) -> list[bytes | None]:
        """The first committed records."""
        ...

    def consume_as_group(self, topic: str, group: str, count: int) -> list[bytes | None]:
        """The next committed records of the group, whose offsets it commits."""
        ...

    def connect(self) -> None:
        """Raises NotLetIn."""
        ...


class Confluent:
    def __init__(self, login: Login) -> None:
        self._errors: list[Any] = []
        self._settings: dict[str, Any] = {
            "bootstrap.servers": login.bootstrap_servers,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "log_level": 0,
            "error_cb": self._errors.append,
            **login.properties(),
        }
        make = login.token
        if make is not None:
            self._settings["oauth_cb"] = lambda _: (make(), time.time() + 3600)

    def _producer(self, **settings: Any) -> Any:
        from confluent_kafka import Producer

        return Producer({**self._settings, "linger.ms": 0, **settings})

    def _send(self, producer: Any, topic: str, values: Sequence[bytes]) -> None:
        failed: list[Any] = []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(TIMEOUT_S) == 0, self._errors
        if failed:
            raise NotLetIn(failed[0])

    def produce(self, topic: str, values: Sequence[bytes]) -> None:
        self._send(self._producer(**{"enable.idempotence": True}), topic, values)

    def produce_in_transaction(self, topic: str, values: Sequence[bytes]) -> None:
        producer = self._producer(**{"transactional.id": f"of-{topic}"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._send(producer, topic, values)
        producer.commit_transaction(TIMEOUT_S)

    def _read(self, count: int, group: str, begin: Callable[[Any], object]) -> list[bytes | None]:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                **self._settings,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        found: list[Any] = []
        try:
            begin(consumer)
            while len(found) < count:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"only {len(found)} of {count} records came: {self._errors}"
                if message.error() is not None:
                    raise NotLetIn(message.error())
                found.append(message)
            if group:
                consumer.commit(message=found[-1], asynchronous=False)
        finally:
            consumer.close()
        return [message.value() for message in found]

    def consume(self, topic: str, count: int) -> list[bytes | None]:
        from confluent_kafka import TopicPartition

        # It does not make a consumer without a group.
        return self._read(count, "none", lambda consumer: consumer.assign([TopicPartition(topic, 0, 0)]))

    def consume_as_group(self, topic: str, group: str, count: int) -> list[bytes | None]:
        return self._read(count, group, lambda consumer: consumer.subscribe([topic]))

    def connect(self) -> None:
        """librdkafka tries for ever, and tells what went wrong beside."""
        from confluent_kafka import KafkaError, KafkaException

        client = self._producer()
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            client.poll(0.01)
            for each in tuple(self._errors):
                # With TLS 1.3 the broker looks at the client's certificate when the client is through already.
                if each.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or " alert " in each.str():
                    raise NotLetIn(each.str())
            try:
                client.list_topics(timeout=0.2)
                return
            except KafkaException:
                assert time.monotonic() < deadline, self._errors


class Aiokafka:
    """One event loop per call."""

    def __init__(self, login: Login) -> None:
        from aiokafka.abc import AbstractTokenProvider

        self._settings: dict[str, Any] = {
            "bootstrap_servers": login.bootstrap_servers,
            "security_protocol": login.protocol,
        }
        if login.is_encrypted:
            self._settings["ssl_context"] = login.context()
        if login.is_sasl:
            self._settings["sasl_mechanism"] = login.mechanism
            make = login.token
            if make is not None:

                class Provider(AbstractTokenProvider):
                    async def token(self) -> Any:
                        return make()

                self._settings["sasl_oauth_token_provider"] = Provider()
            else:
                self._settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}

    def _run(self, kind: Callable[..., Any], use: Callable[[Any], Awaitable[T]], **options: Any) -> T:
        from aiokafka.errors import KafkaError

        async def run() -> T:
            client = kind(**self._settings, **options)
            try:
                await client.start()
                return await use(client)
            finally:
                await client.stop()

        try:
            return asyncio.run(run())
        except KafkaError as error:
            raise NotLetIn(str(error)) from error

    def produce(self, topic: str, values: Sequence[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def send(producer: Any) -> None:
            for sent in [await producer.send(topic, value) for value in values]:
                await sent

        self._run(AIOKafkaProducer, send, enable_idempotence=True)

    def produce_in_transaction(self, topic: str, values: Sequence[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def send(producer: Any) -> None:
            async with producer.transaction():
                for value in values:
                    await producer.send(topic, value)

        self._run(AIOKafkaProducer, send, transactional_id=f"of-{topic}")

    def _read(self, count: int, group: str | None, begin: Callable[[Any], object]) -> list[bytes | None]:
        from aiokafka import AIOKafkaConsumer

        async def read(consumer: Any) -> list[bytes | None]:
            begin(consumer)
            found = [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(count)]
            if group is not None:
                await consumer.commit()
            return found

        return self._run(
            AIOKafkaConsumer,
            read,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
        )

    def consume(self, topic: str, count: int) -> list[bytes | None]:
        from aiokafka import TopicPartition

        return self._read(count, None, lambda consumer: consumer.assign([TopicPartition(topic, 0)]))

    def consume_as_group(self, topic: str, group: str, count: int) -> list[bytes | None]:
        return self._read(count, group, lambda consumer: consumer.subscribe([topic]))

    def connect(self) -> None:
        from aiokafka import AIOKafkaProducer

        async def nothing(_: Any) -> None:
            pass

        self._run(AIOKafkaProducer, nothing)


class KafkaPython:
    def __init__(self, login: Login) -> None:
        with warnings.catch_warnings():
            # kafka-python reads its schemas with a function that Python 3.11 deprecates.
            warnings.simplefilter("ignore", DeprecationWarning)
            import kafka
            from kafka.net.sasl.oauth import AbstractTokenProvider
        self._library: Any = kafka
        self._settings: dict[str, Any] = {
            "bootstrap_servers": login.bootstrap_servers,
            "security_protocol": login.protocol,
        }
        if login.is_encrypted:
            self._settings["ssl_context"] = login.context()
        if login.is_sasl:
            self._settings["sasl_mechanism"] = login.mechanism
            make = login.token
            if make is not None:

                class Provider(AbstractTokenProvider):
                    def token(self) -> Any:
                        return make()

                self._settings["sasl_oauth_token_provider"] = Provider()
            else:
                self._settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}

    def _producer(self, **options: Any) -> Any:
        return self._library.KafkaProducer(**self._settings, **options)

    def _send(self, producer: Any, topic: str, values: Sequence[bytes]) -> None:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(TIMEOUT_S)

    def produce(self, topic: str, values: Sequence[bytes]) -> None:
        producer = self._producer()
        try:
            self._send(producer, topic, values)
        finally:
            producer.close()

    def produce_in_transaction(self, topic: str, values: Sequence[bytes]) -> None:
        producer = self._producer(transactional_id=f"of-{topic}")
        try:
            producer.init_transactions()
            producer.begin_transaction()
            self._send(producer, topic, values)
            producer.commit_transaction()
        finally:
            producer.close()

    def _read(self, count: int, group: str | None, begin: Callable[[Any], object]) -> list[bytes | None]:
        consumer = self._library.KafkaConsumer(
            **self._settings,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
            consumer_timeout_ms=TIMEOUT_S * 1000,
        )
        try:
            begin(consumer)
            found = [message.value for message in islice(consumer, count)]
            if group is not None:
                consumer.commit()
            return found
        finally:
            consumer.close()

    def consume(self, topic: str, count: int) -> list[bytes | None]:
        partition = self._library.TopicPartition(topic, 0)
        return self._read(count, None, lambda consumer: consumer.assign([partition]))

    def consume_as_group(self, topic: str, group: str, count: int) -> list[bytes | None]:
        return self._read(count, group, lambda consumer: consumer.subscribe([topic]))

    def connect(self) -> None:
        from kafka.errors import KafkaError
        from kafka.net.compat import KafkaNetClient

        made: list[Any] = []

        def network(**settings: Any) -> Any:
            made.append(KafkaNetClient(**settings))
            return made[-1]

        try:
            # It tries until then, and tells the reason to its log alone.
            self._producer(bootstrap_timeout_ms=500, kafka_client=network).close()
        except KafkaError as error:
            raise NotLetIn(str(error)) from error
        finally:
            # A producer that cannot connect leaves its sockets open, for whichever test comes when they are collected.
            for each in made:
                each.close()


CLIENTS: Mapping[str, type[SecuredClient]] = {
    "confluent": Confluent,
    "aiokafka": Aiokafka,
    "kafka-python": KafkaPython,
}


def is_let_in(client: str, login: Login) -> bool:
    with warnings.catch_warnings():
        # aiokafka leaves sockets open when it cannot connect.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            CLIENTS[client](login).connect()
        except NotLetIn:
            return False
        else:
            return True
        finally:
            gc.collect()
