"""The clients that a member can be made of, behind one face."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, Protocol, TypedDict

POLL_S = 0.05
RECORDS_MAX = 2000
# A rebalance waits this long for a member that is alive and does not come.
REBALANCE_TIMEOUT_MS = 10_000


class Options(TypedDict):
    client: str
    bootstrap_servers: str
    topic: str
    group: str
    name: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    instance_id: NotRequired[str]


class Owner(Protocol):
    """Who is told what belongs to it."""

    def assigned(self, partitions: Sequence[int]) -> None: ...
    def revoked(self, partitions: Sequence[int]) -> None: ...
    def lost(self, partitions: Sequence[int]) -> None: ...


class Client(Protocol):
    def generation(self) -> int:
        """The generation or member epoch; not positive for a client outside of its group."""
        ...

    def poll(self) -> Mapping[int, Sequence[int]]:
        """The offsets of the records that came, by partition."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        """What kept it from being acknowledged."""
        ...

    def close(self) -> None: ...


class ConfluentClient:
    def __init__(self, options: Options, owner: Owner, settings: Mapping[str, str | int]) -> None:
        from confluent_kafka import Consumer

        config: dict[str, Any] = {
            "bootstrap.servers": options["bootstrap_servers"],
            "group.id": options["group"],
            "client.id": options["name"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": REBALANCE_TIMEOUT_MS,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            # A broker that comes back has the address that it had.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
            **settings,
        }
        if "instance_id" in options:
            config["group.instance.id"] = options["instance_id"]
        self._topic = options["topic"]
        self._consumer = Consumer(config)
        self._consumer.subscribe(
            [self._topic],
            on_assign=lambda _, partitions: owner.assigned([each.partition for each in partitions]),
            on_revoke=lambda _, partitions: owner.revoked([each.partition for each in partitions]),
            on_lost=lambda _, partitions: owner.lost([each.partition for each in partitions]),
        )

    def generation(self) -> int:
        # Its text form: a magic of seven bytes and the generation as the machine stores it.
        metadata = self._consumer.consumer_group_metadata()
        return -1 if metadata is None else int.from_bytes(metadata[7:11], "little", signed=True)

    def poll(self) -> Mapping[int, Sequence[int]]:
        batches: dict[Any, list[Any]] = defaultdict(list)
        for message in self._consumer.consume(RECORDS_MAX, POLL_S):
            error = message.error()
            if error is None:
                batches[message.partition()].append(message.offset())
            elif error.fatal():
                raise SystemExit(error.name())
        return batches

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        from confluent_kafka import KafkaException, TopicPartition

        asked = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            committed = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            return error.args[0].name()
        return next((each.error.name() for each in committed or () if each.error is not None), None)

    def close(self) -> None:
        self._consumer.close()


def confluent_classic(options: Options, owner: Owner, assignor: str) -> Client:
    settings = {
        "session.timeout.ms": options["session_timeout_ms"],
        "heartbeat.interval.ms": options["heartbeat_interval_ms"],
        "partition.assignment.strategy": assignor,
    }
    return ConfluentClient(options, owner, settings)


class AiokafkaClient:
    """Its loop runs while it is asked for something, which a member does without pause."""

    def __init__(self, options: Options, owner: Owner) -> None:
        from aiokafka import AIOKafkaConsumer

        self._topic = options["topic"]
        self._runner = asyncio.Runner()

        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=options["bootstrap_servers"],
                group_id=options["group"],
                client_id=options["name"],
                group_instance_id=options.get("instance_id"),
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=options["session_timeout_ms"],
                heartbeat_interval_ms=options["heartbeat_interval_ms"],
                max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
                fetch_max_wait_ms=100,
                retry_backoff_ms=50,
            )
            await consumer.start()
            consumer.subscribe([self._topic], listener=_aiokafka_listener(owner))
            return consumer

        self._consumer = self._runner.run(start())

    def generation(self) -> int:
        return getattr(self._consumer._coordinator, "generation", -1)

    def poll(self) -> Mapping[int, Sequence[int]]:
        found = self._runner.run(self._getmany())
        return {where.partition: [record.offset for record in records] for where, records in found.items()}

    async def _getmany(self) -> Mapping[Any, Sequence[Any]]:
        # It waits without end while a rebalance goes on; a member that shall leave must not.
        try:
            async with asyncio.timeout(1):
                return await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
        except TimeoutError:
            return {}

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        from aiokafka import TopicPartition
        from aiokafka.errors import KafkaError

        asked = {TopicPartition(self._topic, partition): offset for partition, offset in offsets.items()}
        try:
            self._runner.run(self._consumer.commit(asked))
        except KafkaError as error:
            return type(error).__name__
        return None

    def close(self) -> None:
        self._runner.run(self._stop())
        # Whatever it left running ends here.
        self._runner.close()

    async def _stop(self) -> None:
        # While a fetch that failed waits to be tried again, aiokafka 0.14 ends its own stop: it cancels the fetch, and
        # takes the end of that for a cancellation of itself. What it has not come to then are its connections.
        try:
            await self._consumer.stop()
        except asyncio.CancelledError:
            await self._consumer._client.close()


def _aiokafka_listener(owner: Owner) -> Any:
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            owner.assigned([each.partition for each in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            owner.revoked([each.partition for each in revoked])

    return Listener()


class KafkaPythonClient:
    def __init__(self, options: Options, owner: Owner) -> None:
        from kafka import KafkaConsumer

        self._topic = options["topic"]
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=options["bootstrap_servers"],
            group_id=options["group"],
            client_id=options["name"],
            group_instance_id=options.get("instance_id"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=options["session_timeout_ms"],
            heartbeat_interval_ms=options["heartbeat_interval_ms"],
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
            fetch_max_wait_ms=100,
            retry_backoff_ms=50,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        )
        self._consumer.subscribe([self._topic], listener=_kafka_python_listener(owner))
        # Waits for the metadata. A leader that learns of the partitions only after it joined joins again; should a poll
        # time out meanwhile, kafka-python 3.0 never looks at the answer and sends no heartbeat any more.
        self._consumer.topics()

    def generation(self) -> int:
        return self._consumer._coordinator._generation.generation_id

    def poll(self) -> Mapping[int, Sequence[int]]:
        from kafka.errors import KafkaConnectionError

        try:
            found = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
        except KafkaConnectionError:
            # While no broker is there, kafka-python 3.0 may raise this out of a poll: an application polls again.
            return {}
        return {where.partition: [record.offset for record in records] for where, records in found.items()}

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata, TopicPartition

        asked = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit(asked)
        except KafkaError as error:
            return type(error).__name__
        return None

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def _kafka_python_listener(owner: Owner) -> Any:
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            owner.assigned([each.partition for each in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            owner.revoked([each.partition for each in revoked])

        def on_partitions_lost(self, lost: Any) -> None:
            owner.lost([each.partition for each in lost])

    return Listener()


CLIENTS: Mapping[str, Callable[[Options, Owner], Client]] = {
    "confluent-range": lambda options, owner: confluent_classic(options, owner, "range"),
    "confluent-cooperative": lambda options, owner: confluent_classic(options, owner, "cooperative-sticky"),
    "confluent-consumer": lambda options, owner: ConfluentClient(options, owner, {"group.protocol": "consumer"}),
    "aiokafka": AiokafkaClient,
    "kafka-python": KafkaPythonClient,
}
