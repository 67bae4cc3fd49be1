"""Commands that are operations of /v1 under other names: the same checks, rights and answers. The parameters of a
command are those of the operation's path, together with its query or its body.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from headwater.listeners.http.operation import Operation
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.v1 import cluster, groups, queues, records, topics

OPERATIONS: Final[Mapping[str, Operation]] = {
    "list_topics": topics.list_topics,
    "describe_topic": topics.describe_topic,
    "metadata": cluster.describe_cluster,
    "produce": records.produce,
    "consume": records.consume,
    "commit": groups.reset_offsets,
    "receive": queues.receive,
    "ack": queues.ack,
    "nack": queues.nack,
    "reject": queues.reject,
    "extend": queues.extend,
}
# Their answers may be large: one client has one of them at a time.
READS: Final = frozenset({"consume", "receive"})

_Parameters = dict[str, Raw]
_decode_parameters = msgspec.json.Decoder(_Parameters).decode


async def call(request: Request, name: str, params: Raw) -> bytes:
    """The answer of an operation. Raises HeadwaterErrors."""
    given = parameters_of(params)
    if name == "produce" and "records" not in given:
        return await _produce_one(request, given)
    return await _call(request, OPERATIONS[name], given)


async def _produce_one(request: Request, given: _Parameters) -> bytes:
    """One record, whose fields are parameters of the command itself."""
    topic = {"topic": given.pop("topic")} if "topic" in given else {}
    wrapped = {**topic, "records": Raw(msgspec.json.encode([given]))}
    receipts = msgspec.json.decode(await _call(request, records.produce, wrapped), type=records.Receipts)
    return msgspec.json.encode(receipts.records[0])


async def _call(request: Request, operation: Operation, given: _Parameters) -> bytes:
    in_path = {name: _path_argument(name, kind, given) for name, kind in operation.path_types.items()}
    arguments: dict[str, Any] = dict(in_path)
    rest = msgspec.json.encode(given)
    for name, kind in (("query", operation.query_type), ("body", operation.body_type)):
        if kind is not None:
            arguments[name] = decoded(rest, kind)
    if given and len(arguments) == len(in_path):
        raise Rejection(400, f"params: the command takes no {next(iter(given))[:80]!r}")
    # What an idempotency key stands for.
    request.segments = operation.name, *map(str, in_path.values())
    request.add_body(rest)
    result = await operation.handle(request, **arguments)
    if isinstance(result, Response):
        return result.body or b"null"
    return msgspec.json.encode(result)


def _path_argument(name: str, kind: type, given: _Parameters) -> Any:
    if name not in given:
        raise Rejection(400, f"params: {name!r} is missing")
    value = decoded(given.pop(name), kind)
    if kind is int and not 0 <= value < 2**31:
        raise Rejection(400, f"params: there is no {name} {value}")
    return value


def parameters_of(params: Raw) -> _Parameters:
    """Raises a Rejection."""
    try:
        return _decode_parameters(params)
    except msgspec.DecodeError as error:
        raise Rejection(400, f"params: {error}") from None


def decoded(params: Raw | bytes, kind: Any) -> Any:
    """Raises a Rejection."""
    try:
        return msgspec.json.decode(params, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Rejection(400, f"params: {error}") from None
