"""A page in Chromium that uses a WebSocket and an event stream of the broker, from an origin that is allowed and from
one that is not."""

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headwater.testing import Broker
from tests.support.http.client import HttpClient

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TIMEOUT_S = 90

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]

# What it saw, it sends to the server that it came from.
PAGE = """<!doctype html><meta charset=utf-8><script>
const broker = %(broker)s;
const seen = {socket: null, stream: null, fetched: null};
const tell = () => { if (Object.values(seen).every(each => each !== null))
  fetch("/seen", {method: "POST", body: JSON.stringify(seen)}); };

const socket = new WebSocket(broker.replace("http", "ws") + "/v1/ws");
const received = [];
socket.onopen = () => {
  socket.send(JSON.stringify({id: 1, command: "subscribe", params: {topic: "page", offset: "earliest", credit: 2}}));
  socket.send(JSON.stringify({id: 2, command: "produce", params: {topic: "page", value: "from the page"}}));
};
socket.onmessage = event => {
  const message = JSON.parse(event.data);
  if (message.command === "message") received.push(message.data.value);
  if (received.length === 2) { seen.socket = received; socket.close(1000); tell(); }
};
socket.onclose = event => { seen.socket ??= "closed " + event.code; tell(); };

const stream = new EventSource(broker + "/v1/topics/page/stream?offset=earliest");
stream.onmessage = event => {
  seen.stream ??= {value: JSON.parse(event.data).value, id: event.lastEventId}; stream.close(); tell(); };
stream.onerror = () => { seen.stream ??= "refused"; stream.close(); tell(); };

fetch(broker + "/v1/topics/page").then(answer => answer.json()).then(topic => { seen.fetched = topic.name; tell(); })
  .catch(() => { seen.fetched = "refused"; tell(); });
</script>"""


@contextmanager
def page_server(broker_url: str) -> Generator[tuple[str, "queue.Queue[Any]"]]:
    """A web server with the page, and what the page has seen."""
    seen: queue.Queue[Any] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (PAGE % {"broker": json.dumps(broker_url)}).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            seen.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def visit(url: str, seen: "queue.Queue[Any]", profile: Path) -> Any:
    assert CHROMIUM is not None, "the tests are skipped without it"
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
    log = profile.with_suffix(".log")
    with log.open("wb") as output:
        browser = subprocess.Popen([CHROMIUM, *options, "--remote-debugging-port=0", url], stdout=output, stderr=output)
    try:
        return seen.get(timeout=TIMEOUT_S)
    except queue.Empty:
        pytest.fail(f"the page told nothing: {log.read_text(errors='replace')[-2000:]}")
    finally:
        browser.terminate()
        browser.wait(TIMEOUT_S)


@pytest.fixture
def broker() -> Generator[Broker]:
    with Broker(http=True) as broker:
        with HttpClient(broker) as http:
            http.post("/v1/topics", {"name": "page", "partitions": 1})
            http.post("/v1/topics/page/records", {"records": [{"value": "before"}]})
        yield broker


def test_a_page_of_an_allowed_origin(broker: Broker, tmp_path: Path) -> None:
    with page_server(broker.http_url) as (url, seen):
        with HttpClient(broker) as http:
            changed = http.ask("PATCH", "/v1/config", {"set": {"headwater.http.cors.origins": url}})
            assert changed.status == 200, changed.body
        found = visit(url, seen, tmp_path / "profile")
    assert found == {
        "socket": ["before", "from the page"],
        "stream": {"value": "before", "id": "0:1"},
        "fetched": "page",
    }


def test_a_page_of_another_origin(broker: Broker, tmp_path: Path) -> None:
    with page_server(broker.http_url) as (url, seen):
        found = visit(url, seen, tmp_path / "profile")
    assert found == {"socket": "closed 1006", "stream": "refused", "fetched": "refused"}
