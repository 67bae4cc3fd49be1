"""/v1/ws: the commands and subscriptions of a WebSocket."""

from headwater.listeners.http.operation import operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Upgrade
from headwater.listeners.http.router import Area
from headwater.listeners.http.websocket.conversation import begin
from headwater.listeners.http.websocket.handshake import accept

TAG = "WebSocket"


@operation(
    "GET",
    "/v1/ws",
    tag=TAG,
    is_open=True,
    status=101,
    further_statuses={426: "The request asks for no WebSocket."},
)
async def open_websocket(request: Request) -> Upgrade:
    """A WebSocket, over which commands are sent and records are pushed.

    Browsers can send no Authorization header here: their first command is `login`."""
    authentication = request.authentication
    if authentication.is_stranger(request):
        authentication.check_stranger_count(request.peer_host)
    else:
        request.guard = await authentication.identify(request)
    return begin(request, accept(request))


AREA = Area("websocket", (open_websocket,))
