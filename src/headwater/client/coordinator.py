"""Requests to a coordinator, the broker that keeps a group or a transactional id. It is looked up before the first
request, and again when the group or id has moved."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection
from headwater.client.errors import ClientError, UnknownGroup, UnknownTransactionalId, check, only
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import GroupId, NodeId, TransactionalId
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.wire.codec import Request, Response

# Errors after which another broker may be the coordinator.
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION})

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class CoordinatorNode(NamedTuple):
    id: NodeId
    endpoint: Endpoint


class Coordinator:
    """The key is a group id or a transactional id. Each subclass has the key's type in FindCoordinator, a noun for
    error messages, and the error for an unknown key."""

    key_type: ClassVar[int]
    noun: ClassVar[str]
    unknown_error: ClassVar[type[ClientError]]

    def __init__(self, cluster: Cluster, key: str) -> None:
        self.cluster = cluster
        self._key = key
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
        timeout_ms: int | None = None,
    ) -> T:
        """Ask, and retry temporary errors. `read` extracts the result from the response, or raises the error that the
        response holds. `request` may be a function: it is called for every attempt, so that a retry can differ."""

        def attempt() -> T:
            current = request if isinstance(request, Request) else request()
            return self.ask_once(current, response, read, version_max=version_max, timeout_ms=timeout_ms)

        return self.cluster.retrying(attempt)

    def ask_once(
        self,
        request: Request,
        response: type[R],
        read: Callable[[R], T],
        *,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> T:
        try:
            connection = self._connection()
            return read(connection.call(request, response, version_max=version_max, timeout_ms=timeout_ms))
        except ClientError as error:
            if error.code in _MOVED:
                self._node = None
            raise

    def check(self, code: int, message: str | None = None) -> None:
        """Raise the error that a response holds about the group or transactional id."""
        subject = f"{self.noun} {self._key!r}"
        if code == self.unknown_error.code:
            raise self.unknown_error(f"{subject} does not exist")
        check(code, subject, message)

    def _connection(self) -> BrokerConnection:
        return self.cluster.connection(self.node.endpoint, is_dedicated=True)

    def _find(self) -> CoordinatorNode:
        request = FindCoordinatorRequest(key=self._key, key_type=self.key_type, coordinator_keys=[self._key])

        def read(response: FindCoordinatorResponse) -> CoordinatorNode:
            found = only(response.coordinators)
            self.check(found.error_code, found.error_message)
            return CoordinatorNode(NodeId(found.node_id), Endpoint(found.host, found.port))

        return self.cluster.ask_any(request, FindCoordinatorResponse, read)


class GroupCoordinator(Coordinator):
    key_type = 0
    noun = "group"
    unknown_error = UnknownGroup

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        super().__init__(cluster, group_id)
        self.group_id = GroupId(group_id)


class TransactionCoordinator(Coordinator):
    key_type = 1
    noun = "transactional id"
    unknown_error = UnknownTransactionalId

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        super().__init__(cluster, transactional_id)
        self.transactional_id = TransactionalId(transactional_id)
