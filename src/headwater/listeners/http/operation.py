"""How something that HTTP offers is declared: a function with its method and path.

The function's annotations say what it takes and gives, and everything else follows from them: the check of a request,
its refusal in words, and the description in OpenAPI.

    @operation("POST", "/v1/topics", status=201)
    async def create_topic(request: Request, body: TopicCreation) -> TopicDescription:

Parameters by the names of the path's are the path's segments (`str` or `int`); `query` and `body` are
`msgspec.Struct`s.
A function without a `body` in its annotations may still ask for the bytes: `await request.body()`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from headwater.errors import ErrorCode
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request, parameters_of
from headwater.listeners.http.response import JSON, NO_CONTENT, Answer, Response, Stream, Upgrade

Handler = Callable[..., Awaitable[Any]]


class Operation:
    def __init__(
        self,
        method: str,
        path: str,
        handle: Handler,
        *,
        status: int,
        is_open: bool,
        media_types: tuple[str, ...],
        answer_type: str,
        tag: str,
        further_statuses: Mapping[int, str],
    ) -> None:
        self.method = method
        self.path = path
        self.handle = handle
        # Of a success.
        self.status = status
        # Whether clients need not authenticate.
        self.is_open = is_open
        # Of the body. Pages of other origins can send a few others without being asked (CORS).
        self.media_types = media_types
        self.answer_type = answer_type
        self.tag = tag
        # What it may answer beside a success and refusals, and what that means.
        self.further_statuses = further_statuses
        self.name = f"{method} {path}"

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.handle)

    @cached_property
    def body_type(self) -> Any:
        return self._hints.get("body")

    @cached_property
    def query_type(self) -> Any:
        return self._hints.get("query")

    @cached_property
    def result_type(self) -> Any:
        """None where the function builds its answer itself, or there is nothing to say."""
        hint = self._hints["return"]
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        described = [kind for kind in kinds if kind not in (Response, Stream, Upgrade, NoneType)]
        return described[0] if described else None

    @cached_property
    def path_types(self) -> Mapping[str, type]:
        names = [segment[1:-1] for segment in self.path.split("/") if segment.startswith("{")]
        return {name: self._hints[name] for name in names}

    @cached_property
    def _lists(self) -> frozenset[str]:
        """Query parameters that may be repeated."""
        if self.query_type is None:
            return frozenset()
        fields = msgspec.structs.fields(self.query_type)
        return frozenset(field.encode_name for field in fields if get_origin(field.type) in (list, tuple))

    async def call(self, request: Request, parameters: Mapping[str, str]) -> Answer:
        """Raises HeadwaterErrors."""
        arguments: dict[str, Any] = {}
        for name, kind in self.path_types.items():
            arguments[name] = parameters[name] if kind is str else _number(name, parameters[name])
        if self.query_type is not None:
            arguments["query"] = self._query(request)
        if self.body_type is not None:
            arguments["body"] = await self._body(request)
        result = await self.handle(request, **arguments)
        if isinstance(result, Response | Stream | Upgrade):
            return result
        if result is None:
            return NO_CONTENT
        return Response(self.status, msgspec.json.encode(result), self.answer_type)

    def _query(self, request: Request) -> Any:
        given: dict[str, Any] = {}
        for name, values in parameters_of(request.query).items():
            if name in self._lists:
                given[name] = values
            elif len(values) == 1:
                given[name] = values[0]
            else:
                raise Rejection(400, f"the query parameter {name[:80]!r} is there twice")
        try:
            return msgspec.convert(given, self.query_type, strict=False)
        except msgspec.ValidationError as error:
            raise Rejection(400, f"query: {error}") from None

    async def _body(self, request: Request) -> Any:
        if request.media_type not in self.media_types:
            raise Rejection(415, f"the Content-Type of the body is to be {' or '.join(self.media_types)}")
        body = await request.body()
        try:
            return msgspec.json.decode(body, type=self.body_type)
        except msgspec.ValidationError as error:
            raise Rejection(400, f"body: {error}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise Rejection(400, f"the body is not valid JSON: {error}") from None


def operation(
    method: str,
    path: str,
    *,
    status: int = 200,
    is_open: bool = False,
    media_types: tuple[str, ...] = (JSON,),
    answer_type: str = JSON,
    tag: str = "",
    further_statuses: Mapping[int, str] = {},
) -> Callable[[Handler], Operation]:
    def declare(handle: Handler) -> Operation:
        return Operation(
            method,
            path,
            handle,
            status=status,
            is_open=is_open,
            media_types=media_types,
            answer_type=answer_type,
            tag=tag,
            further_statuses=further_statuses,
        )

    return declare


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise Rejection(404, f"there is no {name} {text[:80]!r}", code=ErrorCode.RESOURCE_NOT_FOUND)
    return int(text)
