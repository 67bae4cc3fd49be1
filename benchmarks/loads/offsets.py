"""Committed offsets: many at once over one connection, and all of them asked for again."""

import socket
import time
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.loads import frames
from headwater.client.errors import check
from headwater.errors import ErrorCode
from headwater.protocol.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

COMMIT_VERSION, FETCH_VERSION = 8, 8
# Requests under way on one connection: enough that the broker always has the next, few enough for its buffers.
WINDOW = 50
LOADING = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
# A broker that is polled too often has less time to load.
RETRY_PAUSE_S = 0.01


def commit_frame(group_id: str, topic: str, partitions: Iterable[int], offset: int) -> bytes:
    """A commit by a client that is not a member."""
    asked = [OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in partitions]
    request = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=asked)])
    return frames.request_frame(request, COMMIT_VERSION)


def commit_once(connection: socket.socket, frame: bytes) -> int:
    """Checks that the broker accepts the commit; gives the size of each such response, its length included."""
    response = frames.exchange(connection, frame)
    _check_commit(response)
    return len(response) + frames.SIZE.size


def commit_all(connection: socket.socket, commits: Sequence[bytes]) -> None:
    for response in _pipeline(connection, commits):
        _check_commit(response)


def fetch_all(connection: socket.socket, group_ids: Iterable[str], deadline: float) -> Mapping[str, Mapping[int, int]]:
    """What each group has committed, by partition of its one topic; a group that is not loaded yet is asked again."""
    found: dict[str, Mapping[int, int]] = {}
    missing = list(group_ids)
    while missing:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the offsets of {len(missing)} groups cannot be had")
        for response in _pipeline(connection, [_fetch_frame(group_id) for group_id in missing]):
            (group,) = frames.read_response(OffsetFetchResponse, FETCH_VERSION, response).groups
            if group.error_code not in LOADING:
                check(group.error_code, f"offsets of {group.group_id}")
                found[group.group_id] = _offsets(group)
        missing = [group_id for group_id in missing if group_id not in found]
        if missing:
            time.sleep(RETRY_PAUSE_S)
    return found


def _offsets(group: OffsetFetchResponseGroup) -> Mapping[int, int]:
    return {each.partition_index: each.committed_offset for topic in group.topics for each in topic.partitions}


def _fetch_frame(group_id: str) -> bytes:
    """All topics of the group."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    return frames.request_frame(request, FETCH_VERSION)


def _check_commit(response: bytearray) -> None:
    for topic in frames.read_response(OffsetCommitResponse, COMMIT_VERSION, response).topics:
        for partition in topic.partitions:
            check(partition.error_code, f"commit of {topic.name}-{partition.partition_index}")


def _pipeline(connection: socket.socket, requests: Sequence[bytes]) -> Iterable[bytearray]:
    for start in range(0, len(requests), WINDOW):
        window = requests[start : start + WINDOW]
        connection.sendall(b"".join(window))
        for _ in window:
            yield frames.read_exactly(connection, frames.read_size(connection))
