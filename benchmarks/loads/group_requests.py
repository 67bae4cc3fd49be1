"""The small requests that a broker with many groups mostly sees: commits of one partition, and heartbeats.

The first and the last of each client are looked at: a member that was dropped in between could not go on, and a commit
of the same offset that was refused once would be refused again.
"""

from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.loads.members import GroupPlan
from benchmarks.loads.offsets import commit_frame, commit_once
from benchmarks.loads.rebalance import KINDS, Fleet, find_coordinator, is_settled
from benchmarks.loads.requests import Client, drive


def commit(ready: Callable[[], None], address: str, topic: str, groups: int, seconds: float) -> Outcome:
    """Commit offsets: one connection per group, one partition per request."""
    names = [f"group-{index}" for index in range(groups)]
    find_coordinator(address, names)
    with ExitStack() as stack:
        clients: list[Client] = []
        for name in names:
            connection = stack.enter_context(frames.connect(address))
            frame = commit_frame(name, topic, [0], offset=1)
            clients.append(Client(connection, frame, commit_once(connection, frame)))
        ready()
        outcome = drive(clients, seconds)
        for client in clients:
            commit_once(client.connection, client.frame)
    return outcome


def heartbeat(ready: Callable[[], None], plan: GroupPlan, protocol: str, members: int, seconds: float) -> Outcome:
    """Send heartbeats: one connection per member of a stable group."""
    find_coordinator(plan.address, [plan.group_id])
    fleet = Fleet(plan, KINDS[protocol])
    for _ in range(members):
        fleet.add().join()
    fleet.run(lambda: is_settled([member.owned for member in fleet.members.values()], plan.partitions))
    fleet.spread()
    fleet.run(lambda: all(member.is_resting for member in fleet.members.values()))
    clients: list[Client] = []
    for member in fleet.members.values():
        frame = member.heartbeat_frame()
        clients.append(
            Client(member.connection, frame, frames.SIZE.size + len(frames.exchange(member.connection, frame)))
        )
    ready()
    outcome = drive(clients, seconds)
    # A member that was dropped meanwhile, or whose group has rebalanced, would get an error now.
    fleet.spread()
    if [member.heartbeat_frame() for member in fleet.members.values()] != [client.frame for client in clients]:
        raise RuntimeError("the group has rebalanced while its heartbeats were counted")
    fleet.close()
    return outcome
