"""Whether the broker can do its work, and what keeps it from that."""

from collections.abc import Iterator

import msgspec

from headwater.broker.broker import Broker
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC


class Check(msgspec.Struct):
    """One condition of readiness."""

    name: str
    is_ok: bool = msgspec.field(name="ok")
    # What is wrong.
    problem: str = ""


def checks(broker: Broker, *, is_stopping: bool) -> Iterator[Check]:
    yield Check("running", not is_stopping, "the broker is about to stop" if is_stopping else "")
    offline = [str(partition.id) for partition in broker.partitions.all() if not partition.is_online]
    total = sum(1 for _ in broker.partitions.all())
    # One broken partition is an alarm (`headwater_partitions_offline`), but the others are served.
    is_ok = not offline or len(offline) < total
    yield Check("partitions", is_ok, f"{len(offline)} of {total} partitions are out of service" if offline else "")
    for name, topic, loading in (
        ("groups", OFFSETS_TOPIC, broker.groups.loading_count),
        ("transactions", TRANSACTIONS_TOPIC, broker.transactions.loading_count),
    ):
        yield Check(name, not loading, f"{loading} partitions of {topic} are being loaded" if loading else "")
