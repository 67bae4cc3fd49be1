"""The members of one group, played by programs around the Java client and franz-go."""

from collections.abc import Mapping, Sequence

from tests.support.groups.clients import Options
from tests.support.groups.crew import Crew, Member
from tests.support.kafka.raw_client import Reachable


class MixedCrew(Crew):
    """`programs` are the commands that play a member, by the first word of a client's name."""

    def __init__(self, broker: Reachable, group: str, programs: Mapping[str, Sequence[str]]) -> None:
        super().__init__(broker, "", group)
        self._programs = programs

    def join_as(self, *clients: str) -> Sequence[Member]:
        return [self._join_as(client) for client in clients]

    def _join_as(self, client: str) -> Member:
        options: Options = {**self._options, "client": client, "name": f"{client}-{len(self.members)}"}
        member = Member(self._programs[client.partition("-")[0]], options, self._changed)
        self.members.append(member)
        return member
