"""The members of one group, played by programs around the Java client and franz-go."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.groups.clients import Options
from tests.groups.crew import Crew, Member
from tests.groups.history import Event
from tests.listeners.raw import Reachable


class ProgramMember(Member):
    """One that another program than that of tests/groups plays; it tells the same."""

    def __init__(self, command: Sequence[str], options: Options, changed: threading.Condition) -> None:
        self.name = options["name"]
        self.history: list[Event] = []
        self.owned: set[int] = set()
        self.committed: Counter[int] = Counter()
        self.is_active = True
        self._changed = changed
        self._process = subprocess.Popen(
            [*command, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()


class MixedCrew(Crew):
    """`programs` are the commands that play a member, by the first word of a client's name."""

    def __init__(self, broker: Reachable, group: str, programs: Mapping[str, Sequence[str]]) -> None:
        super().__init__(broker, "", group)
        self._programs = programs

    def join_as(self, *clients: str) -> Sequence[Member]:
        return [self._join_as(client) for client in clients]

    def _join_as(self, client: str) -> Member:
        options: Options = {**self._options, "client": client, "name": f"{client}-{len(self.members)}"}
        member = ProgramMember(self._programs[client.partition("-")[0]], options, self._changed)
        self.members.append(member)
        return member
