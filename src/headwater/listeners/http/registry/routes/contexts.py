"""Contexts, and what the registry says of itself."""

from importlib.metadata import version
from typing import Any

from headwater.broker.audit.event import EventType
from headwater.coordination.schemas import subjects
from headwater.coordination.schemas.subjects import DEFAULT_CONTEXT
from headwater.listeners.http.registry.answers import answer
from headwater.listeners.http.registry.declaration import Page, page_of, registry_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import NO_CONTENT, Response
from headwater.security.acl import CLUSTER, Operation


class ContextFilter(Page, rename="camel"):
    context_prefix: str = ""


@registry_operation("GET", "/contexts")
async def list_contexts(request: Request, query: ContextFilter) -> Response:
    """The names of contexts. Needs DESCRIBE on the cluster."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    contexts = await request.broker.schemas.ask(lambda machine: sorted(machine.state.contexts))
    found = [name for name in (DEFAULT_CONTEXT, *contexts) if name.startswith(query.context_prefix)]
    return answer(page_of(found, query))


@registry_operation("DELETE", "/contexts/{context}")
async def delete_context(request: Request, context: str) -> Response:
    """Forget a context without subjects. Needs ALTER on the cluster."""
    request.guard.check(Operation.ALTER, CLUSTER)
    name = context if context.startswith(".") else subjects.context_of(context)
    with request.guard.change(EventType.SCHEMA_DELETE, f"context '{name}'"):
        await request.broker.schemas.delete_context(name)
    return NO_CONTENT


@registry_operation("GET", "/v1/metadata/id")
async def get_cluster_id(request: Request) -> Response:
    """The id of the registry's cluster."""
    clusters = {"kafka-cluster": request.broker.cluster_id, "schema-registry-cluster": "headwater"}
    scope: dict[str, Any] = {"path": [], "clusters": clusters}
    return answer({"scope": scope})


@registry_operation("GET", "/v1/metadata/version")
async def get_server_version(_request: Request) -> Response:
    """The version of the broker."""
    return answer({"version": version("headwater"), "commitId": ""})


OPERATIONS = (list_contexts, delete_context, get_cluster_id, get_server_version)
