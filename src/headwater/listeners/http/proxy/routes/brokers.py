"""The brokers of the cluster."""

from headwater.listeners.http.proxy.answers import answer
from headwater.listeners.http.proxy.declaration import proxy_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response


@proxy_operation("GET", "/brokers")
async def list_brokers(request: Request) -> Response:
    """The numbers of the brokers."""
    return answer(request, {"brokers": [request.broker.leadership.node_id]})


OPERATIONS = (list_brokers,)
