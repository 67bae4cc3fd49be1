"""The description of /v1 in OpenAPI 3.1, written from the declarations of the operations, and a page to read it."""

import html
import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from headwater.listeners.http import problem
from headwater.listeners.http.operation import Operation, operation
from headwater.listeners.http.problem import Problem
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import JSON, Response
from headwater.listeners.http.router import Area

TAG = "description"
_REFERENCE = "#/components/schemas/{name}"
# What every operation may answer, beside its success.
_REFUSALS = {
    400: "The request is malformed, or refused by a rule.",
    401: "The client has not authenticated.",
    403: "The client has no right to do this.",
    404: "There is no such thing.",
    405: "The method is not possible here.",
    406: "There is no answer of a type that the client accepts.",
    408: "The request did not arrive in time.",
    409: "The state of things does not allow it now.",
    412: "It has been changed since (If-Match).",
    413: "The request is too large.",
    415: "The body is of a type that is not taken.",
    416: "There is no such offset.",
    421: "This broker does not have that name (headwater.http.hosts).",
    422: "The Idempotency-Key was used for another request.",
    429: "Too much at once.",
    431: "The head of the request is too large.",
    500: "A fault of the broker.",
    503: "Not now: the broker loads, stops, or cannot write.",
}
_PROBLEM = {"content": {problem.CONTENT_TYPE: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}}}


def describe(areas: Iterable[Area]) -> dict[str, Any]:
    operations = [each for area in areas for each in area.operations if _is_described(each)]
    types: list[Any] = [Problem]
    for each in operations:
        types += [kind for kind in (each.body_type, each.result_type) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headwater",
            "version": version("headwater"),
            "description": "Topics, records, groups, transactions and access of a Headwater broker over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in operations)],
    }


def _is_described(each: Operation) -> bool:
    return each.path.startswith(("/v1/", "/health/")) or each.path == "/metrics"


def _operation(each: Operation, schemas: Mapping[int, Any]) -> dict[str, Any]:
    summary, _, rest = (inspect.getdoc(each.handle) or "").partition("\n\n")
    described: dict[str, Any] = {
        "operationId": each.handle.__name__,
        "summary": " ".join(summary.split()),
        "tags": [each.tag],
        "parameters": list(_parameters(each)),
        "responses": dict(_responses(each, schemas)),
    }
    if rest:
        described["description"] = " ".join(rest.split())
    if each.is_open:
        described["security"] = []
    if each.body_type is not None:
        content = {media_type: {"schema": schemas[id(each.body_type)]} for media_type in each.media_types}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(each: Operation) -> Iterator[dict[str, Any]]:
    for name, kind in each.path_types.items():
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if kind is int:
            schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    if each.query_type is not None:
        (_,), components = msgspec.json.schema_components([each.query_type], ref_template=_REFERENCE)
        described = components[each.query_type.__name__]
        required = described.get("required", [])
        for name, schema in described["properties"].items():
            yield {"name": name, "in": "query", "required": name in required, "schema": schema}


def _responses(each: Operation, schemas: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    success: dict[str, Any] = {"description": "Done."}
    if each.result_type is not None:
        success["content"] = {each.answer_type: {"schema": schemas[id(each.result_type)]}}
    elif each.status not in (101, 204):
        success["content"] = {each.answer_type: {"schema": {} if "json" in each.answer_type else {"type": "string"}}}
    yield str(each.status), success
    for status, described in each.further_statuses.items():
        further = success if status in (200, 207, 503) else {}
        yield str(status), {**further, "description": described}
    for status, described in _REFUSALS.items():
        if status not in each.further_statuses:
            yield str(status), {"description": described, **_PROBLEM}


@operation("GET", "/v1/openapi.json", tag=TAG, is_open=True)
async def description(request: Request) -> Response:
    """This description, in OpenAPI 3.1."""
    return Response(200, _encoded(request.services.router.areas), JSON)


@operation("GET", "/v1", tag=TAG, is_open=True, answer_type="text/html; charset=utf-8")
async def page(request: Request) -> Response:
    """The description as a page for people."""
    return Response(200, _page(request.services.router.areas), "text/html; charset=utf-8", _PAGE_HEADERS)


# The page has no script and loads nothing.
_PAGE_HEADERS = (
    ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("referrer-policy", "no-referrer"),
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{font-family:ui-monospace,monospace}h3 code:first-child{font-weight:bold}"
    "table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.2rem .6rem;text-align:left;vertical-align:top}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}"
)


@cache
def _encoded(areas: tuple[Area, ...]) -> bytes:
    return msgspec.json.encode(describe(areas))


@cache
def _page(areas: tuple[Area, ...]) -> bytes:
    described = describe(areas)
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Headwater over HTTP</title>",
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style></head><body>",
        f"<h1>Headwater over HTTP</h1><p>{html.escape(described['info']['description'])} ",
        "As a file for programs: <a href='/v1/openapi.json'>openapi.json</a>.</p>",
    ]
    for tag in described["tags"]:
        parts.append(f"<h2>{html.escape(tag['name'])}</h2>")
        parts += [
            _section(path, method, each)
            for path, methods in described["paths"].items()
            for method, each in methods.items()
            if each["tags"] == [tag["name"]]
        ]
    parts.append("</body></html>")
    return "".join(parts).encode()


def _section(path: str, method: str, each: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(found['name'])}</code><td>{found['in']}<td><code>"
        f"{html.escape(msgspec.json.encode(found['schema']).decode())}</code></tr>"
        for found in each["parameters"]
    )
    table = f"<table><tr><th>parameter<th>in<th>schema</tr>{rows}</table>" if rows else ""
    body = ""
    if "requestBody" in each:
        schema = next(iter(each["requestBody"]["content"].values()))["schema"]
        body = f"<p>Body: <code>{html.escape(schema.get('$ref', '').rpartition('/')[2])}</code></p>"
    text = html.escape(" ".join((each["summary"], each.get("description", ""))))
    return f"<h3><code>{method.upper()}</code> <code>{html.escape(path)}</code></h3><p>{text}</p>{body}{table}"


AREA = Area("description", (description, page))
