"""The broker that keeps a group: found when it is first asked something, and anew when the group has moved."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from headwater.client.cluster import Cluster
from headwater.client.connection import Connection
from headwater.client.errors import ClientError, UnknownGroup, check, only
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import GroupId, NodeId
from headwater.protocol.codec import Request, Response
from headwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
# After these, another broker may be the one to ask.
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION})

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class CoordinatorNode(NamedTuple):
    id: NodeId
    endpoint: Endpoint


class Coordinator:
    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = GroupId(group_id)
        self._node: CoordinatorNode | None = None

    @property
    def node(self) -> CoordinatorNode:
        if self._node is None:
            self._node = self._find()
        return self._node

    def ask(
        self,
        request: Request | Callable[[], Request],
        response: type[R],
        read: Callable[[R], T],
        *,
        version_max: int | None = None,
    ) -> T:
        """Asks, and asks again where that may help; `read` takes from the answer what is wanted, or raises what is
        wrong. A request that depends on what became of the one before it is given as a function."""

        def attempt() -> T:
            made = request if isinstance(request, Request) else request()
            return self.ask_once(made, response, read, version_max=version_max)

        return self.cluster.retrying(attempt)

    def ask_once(
        self, request: Request, response: type[R], read: Callable[[R], T], *, version_max: int | None = None
    ) -> T:
        try:
            return read(self._connection().call(request, response, version_max=version_max))
        except ClientError as error:
            if error.code in _MOVED:
                self._node = None
            raise

    def check(self, code: int, message: str | None = None) -> None:
        """Raises what an answer says is wrong with the group."""
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise UnknownGroup(f"group {self.group_id!r} does not exist")
        check(code, f"group {self.group_id!r}", message)

    def _connection(self) -> Connection:
        return self.cluster.connection(self.node.endpoint, apart=True)

    def _find(self) -> CoordinatorNode:
        request = FindCoordinatorRequest(key=self.group_id, key_type=_GROUP, coordinator_keys=[self.group_id])

        def read(response: FindCoordinatorResponse) -> CoordinatorNode:
            found = only(response.coordinators)
            self.check(found.error_code, found.error_message)
            return CoordinatorNode(NodeId(found.node_id), Endpoint(found.host, found.port))

        return self.cluster.ask_any(request, FindCoordinatorResponse, read)
