"""Where `headwater user` finds the users: at a running broker, or in the data directory of one that is stopped."""

import os
from collections.abc import Collection, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headwater.errors import ConfigError, ErrorCode
from headwater.security.scram_keys import BY_NUMBER, MECHANISMS

if TYPE_CHECKING:
    from asyncio import Runner

    from headwater.broker.broker import Broker
    from headwater.client.cluster import Cluster
    from headwater.config.broker import BrokerConfig

T = TypeVar("T")

# Mechanisms and their iterations, by user.
Users = Mapping[str, Sequence[tuple[str, int]]]


class UserStore(Protocol):
    def users(self) -> Users: ...

    def set_password(self, name: str, password: str, mechanisms: Collection[str], iterations: int) -> None:
        """The user is created if need be."""
        ...

    def make_administrator(self, name: str) -> None:
        """Allow the user everything."""
        ...

    def delete(self, name: str) -> None: ...


class RunningBroker:
    def __init__(self, cluster: "Cluster") -> None:
        from headwater.client.users import UserAdmin

        self._cluster = cluster
        self._admin = UserAdmin(cluster)

    def users(self) -> Users:
        return self._admin.describe_users()

    def set_password(self, name: str, password: str, mechanisms: Collection[str], iterations: int) -> None:
        self._admin.set_password(name, password, mechanisms=mechanisms, iterations=iterations)

    def make_administrator(self, name: str) -> None:
        from headwater.client.access import AccessAdmin
        from headwater.security.acl import all_permissions
        from headwater.security.principals import user

        AccessAdmin(self._cluster).create_acls(all_permissions(str(user(name))))

    def delete(self, name: str) -> None:
        self._admin.delete_user(name)


class StoppedBroker:
    """Starts the broker without its listeners: its locks, recovery and catalog are those of any start."""

    def __init__(self, broker: "Broker", loop: "Runner") -> None:
        self._broker = broker
        self._loop = loop

    def users(self) -> Users:
        described = self._broker.access.users.describe()
        return {
            name: [(BY_NUMBER[each.mechanism].name, each.iterations) for each in credentials]
            for name, credentials in described.items()
        }

    def set_password(self, name: str, password: str, mechanisms: Collection[str], iterations: int) -> None:
        chosen = [MECHANISMS[each] for each in mechanisms]
        self._do(self._broker.access.users.set_password(name, password, chosen, iterations), name, "set password")

    def make_administrator(self, name: str) -> None:
        self._do(self._broker.access.make_administrator(name), name, "allow everything")

    def delete(self, name: str) -> None:
        from headwater.broker.access.users import Deletion

        deletions = [Deletion(name, MECHANISMS[mechanism].number) for mechanism, _ in self.users()[name]]
        outcomes = self._do(self._broker.access.users.alter([], deletions), name, "delete")
        error = outcomes[name]
        if error is not None:
            raise error

    def _do(self, change: Coroutine[Any, Any, T], name: str, action: str) -> T:
        from headwater.broker.audit.event import EventType

        result = self._loop.run(change)
        audit = self._broker.access.audit
        if audit is not None:

            async def record() -> None:
                # On the loop, which writes it.
                details = {"action": action, "by": "headwater user --data-dir"}
                audit.record_local(EventType.USER_CHANGE, f"user '{name}'", details)

            self._loop.run(record())
        return result


@contextmanager
def stopped_broker(directory: Path, *, is_created: bool = False) -> Generator[StoppedBroker]:
    """The broker whose data is in `directory`. `is_created` makes a directory that is not there."""
    if not is_created and not directory.is_dir():
        raise ConfigError(f"{directory}: there is no such directory (--data-dir)")
    from asyncio import Runner

    with Runner() as loop:
        broker = loop.run(_opened(directory))
        try:
            yield StoppedBroker(broker, loop)
        finally:
            loop.run(broker.stop())


async def _opened(directory: Path) -> "Broker":
    from headwater.broker.broker import Broker
    from headwater.clock import SystemClock
    from headwater.storage.data_directory import DataDirectory, DataDirectoryInUse

    config = _config(directory)
    try:
        data = DataDirectory(directory.absolute(), config.node_id)
    except DataDirectoryInUse:
        raise ConfigError(
            f"{directory} is in use by a running broker: leave out --data-dir to ask that broker, or stop it first"
        ) from None
    try:
        return Broker(config, SystemClock(), data)
    except BaseException:
        data.release()
        raise


def _config(directory: Path) -> "BrokerConfig":
    """The settings that `headwater serve` would find here, for the broker that the directory belongs to."""
    from headwater.config.loader import find_file, load
    from headwater.storage.data_directory import owner_of

    flags = {"log.dir": str(directory)}
    node_id = owner_of(directory)
    if node_id is not None:
        flags["node.id"] = node_id
    return load(flags, os.environ, find_file(None, os.environ)).config


def check_known(users: Users, name: str) -> None:
    if name not in users:
        from headwater.client.errors import Refused

        raise Refused(ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r}", f"there is no user {name!r}")
