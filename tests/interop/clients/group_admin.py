"""What an administrator does with groups, through the Java client."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.interop.clients.program import Program
from tests.interop.exchange import Setting

# Partitions are written as in Java: the topic, a hyphen and the number.
Offsets = dict[str, tuple[int, str]]


class GroupAdmin:
    def __init__(self, program: Program, bootstrap_servers: str) -> None:
        self._program = program
        self._bootstrap_servers = bootstrap_servers

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._program.ask({"do": do, "bootstrap": self._bootstrap_servers, **arguments})

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> dict[str, tuple[str, str, str]]:
        """The state, the type and the protocol of each group."""
        groups = self._ask("listGroups", states=states, types=types)["groups"]
        return {group["id"]: (group["state"], group["type"], group["protocol"]) for group in groups}

    def describe(self, *groups: str) -> dict[str, Any]:
        """Groups of either protocol."""
        return self._ask("describeGroups", groups=groups)

    def describe_classic(self, *groups: str) -> dict[str, Any]:
        return self._ask("describeClassicGroups", groups=groups)

    def delete(self, *groups: str) -> None:
        self._ask("deleteGroups", groups=groups)

    def remove_members(self, group: str, *instances: str) -> None:
        """Static members by their names, or everyone where none is named."""
        self._ask("removeMembers", group=group, instances=instances)

    # -- offsets

    def offsets(self, *groups: str) -> dict[str, Offsets]:
        answer = self._ask("groupOffsets", groups=groups)
        return {
            group: {partition: (offset, metadata) for partition, (offset, metadata) in found.items()}
            for group, found in answer.items()
        }

    def alter_offsets(self, group: str, topic: str, offsets: Mapping[int, tuple[int, str]]) -> None:
        asked = [
            {"topic": topic, "partition": partition, "offset": offset, "metadata": metadata}
            for partition, (offset, metadata) in offsets.items()
        ]
        self._ask("alterGroupOffsets", group=group, offsets=asked)

    def delete_offsets(self, group: str, topic: str, partition: int) -> None:
        self._ask("deleteGroupOffsets", group=group, topic=topic, partition=partition)

    # -- settings

    def configure(self, group: str, changed: Mapping[str, str], deleted: Sequence[str] = ()) -> None:
        self._ask("alterConfigs", group=group, set=changed, delete=deleted)

    def describe_configs(self, group: str) -> dict[str, Setting]:
        configs = self._ask("describeConfigs", group=group)["configs"]
        return {name: Setting(config["value"], config["source"]) for name, config in configs.items()}

    def configured(self) -> set[str]:
        """The groups that have settings of their own."""
        return set(self._ask("groupsWithConfigs")["names"])
