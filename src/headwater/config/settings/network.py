"""Settings of the broker about listeners, connections and requests."""

from collections.abc import Sequence

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, LIST, LONG, STRING, setting
from headwater.config.listener_overrides import values_of
from headwater.config.listeners import (
    HTTP_SCHEMES,
    ListenerAddress,
    SecurityProtocol,
    check_inter_broker,
    check_origin,
    http_addresses,
    listener_addresses,
    parse_addresses,
    parse_http_addresses,
    parse_protocols,
)
from headwater.errors import ConfigError


@broker_settings_class
class NetworkSettings(BrokerSettings):
    listeners: str = setting(
        STRING,
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "The addresses to listen on, as NAME://HOST:PORT, separated by commas; port 0 takes a free one. "
        "Without NAME:// the name is PLAINTEXT.",
        check=parse_addresses,
    )
    advertised_listeners: str | None = setting(
        STRING,
        "advertised.listeners",
        None,
        "The addresses that clients are told to connect to, in the form and by the names of listeners; "
        "a listener that is not named here tells the address that it listens on.",
        check=parse_addresses,
    )
    listener_security_protocol_map: str = setting(
        STRING,
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Which security protocol each listener speaks, as NAME:PROTOCOL, separated by commas.",
        check=parse_protocols,
    )
    inter_broker_listener_name: str | None = setting(
        STRING,
        "inter.broker.listener.name",
        None,
        "The listener that other brokers connect to: one of listeners. Accepted and checked; a single broker has no "
        "others.",
    )
    security_inter_broker_protocol: str | None = setting(
        STRING,
        "security.inter.broker.protocol",
        None,
        "The security protocol of that listener, instead of its name. Accepted and checked.",
        allowed=tuple(protocol.value for protocol in SecurityProtocol),
    )
    headwater_insecure_listeners_allow: bool = setting(
        BOOLEAN,
        "headwater.insecure.listeners.allow",
        False,
        "Whether a listener where clients need not authenticate may have an address that other machines can reach.",
    )
    socket_request_max_bytes: int = setting(
        INT,
        "socket.request.max.bytes",
        104_857_600,
        "The largest request; a longer one closes its connection.",
        minimum=1024,
        dynamic=True,
    )
    headwater_socket_request_max_bytes_unauthenticated: int = setting(
        INT,
        "headwater.socket.request.max.bytes.unauthenticated",
        524_288,
        "The largest request on a connection that still has to authenticate.",
        minimum=1024,
        dynamic=True,
    )
    queued_max_request_bytes: int = setting(
        LONG,
        "queued.max.request.bytes",
        268_435_456,
        "The memory for requests in flight over all connections; beyond it, reading stops until there is room. "
        "(Kafka has no limit.)",
        minimum=1_048_576,
        dynamic=True,
    )
    max_connections: int = setting(
        INT,
        "max.connections",
        10_000,
        "How many connections are open at once; a further one is closed as it arrives. (Kafka has no limit.)",
        minimum=1,
        dynamic=True,
    )
    max_connections_per_ip: int = setting(
        INT,
        "max.connections.per.ip",
        10_000,
        "How many connections one address has open at once; a further one is closed as it arrives. "
        "(Kafka has no limit.)",
        minimum=1,
        dynamic=True,
    )
    connections_max_idle_ms: int = setting(
        LONG,
        "connections.max.idle.ms",
        600_000,
        "How long a connection may be silent before it is closed; -1 is for ever.",
        minimum=1,
        also=(-1,),
        dynamic=True,
    )
    headwater_request_read_timeout_ms: int = setting(
        INT,
        "headwater.request.read.timeout.ms",
        30_000,
        "How long a request that has begun may take to arrive whole before its connection is closed.",
        minimum=1,
        dynamic=True,
    )
    headwater_response_write_timeout_ms: int = setting(
        INT,
        "headwater.response.write.timeout.ms",
        30_000,
        "How long a client may take no byte of its response before its connection is closed.",
        minimum=1,
        dynamic=True,
    )
    headwater_connection_requests_max: int = setting(
        INT,
        "headwater.connection.requests.max",
        128,
        "How many requests of one connection are handled at once; the next ones wait in the socket.",
        minimum=1,
        maximum=65_536,
        dynamic=True,
    )
    headwater_socket_buffer_idle_bytes: int = setting(
        INT,
        "headwater.socket.buffer.idle.bytes",
        4096,
        "The read buffer of a connection between requests; it grows only while a larger request arrives.",
        minimum=64,
        maximum=1_048_576,
    )
    socket_send_buffer_bytes: int = setting(
        INT,
        "socket.send.buffer.bytes",
        -1,
        "SO_SNDBUF of connections; -1 leaves it to the operating system. (Kafka's default is 102400.)",
        minimum=1024,
        also=(-1,),
    )
    socket_receive_buffer_bytes: int = setting(
        INT,
        "socket.receive.buffer.bytes",
        -1,
        "SO_RCVBUF of connections; -1 leaves it to the operating system. (Kafka's default is 102400.)",
        minimum=1024,
        also=(-1,),
    )
    socket_listen_backlog_size: int = setting(
        INT,
        "socket.listen.backlog.size",
        1024,
        "How many connections may wait to be accepted. (Kafka's default is 50.)",
        minimum=1,
    )
    fetch_max_bytes: int = setting(
        INT,
        "fetch.max.bytes",
        57_671_680,
        "The most bytes of records that one fetch gives back, whatever it asks for.",
        minimum=1024,
        dynamic=True,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        INT,
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many fetch sessions are remembered.",
        minimum=0,
        maximum=1_000_000,
    )
    headwater_batch_decompressed_bytes_max: int = setting(
        LONG,
        "headwater.batch.decompressed.bytes.max",
        134_217_728,
        "The most bytes that a compressed batch may turn into; a batch beyond it is refused as corrupt.",
        minimum=1024,
        dynamic=True,
    )
    headwater_batch_inline_bytes_max: int = setting(
        INT,
        "headwater.batch.inline.bytes.max",
        131_072,
        "A batch that is compressed, or is to be stored in another compression, is checked in a thread if it has more "
        "bytes than this, before or after it is decompressed: other clients are served meanwhile.",
        minimum=0,
        dynamic=True,
    )
    headwater_batch_check_threads: int = setting(
        INT,
        "headwater.batch.check.threads",
        2,
        "How many threads check large batches (headwater.batch.inline.bytes.max).",
        minimum=1,
        maximum=256,
    )
    headwater_shutdown_timeout_ms: int = setting(
        INT,
        "headwater.shutdown.timeout.ms",
        30_000,
        "How long a stopping broker waits for requests in flight before it flushes and leaves.",
        minimum=0,
        dynamic=True,
    )

    # HTTP
    headwater_http_listeners: str | None = setting(
        STRING,
        "headwater.http.listeners",
        None,
        "The addresses to serve HTTP on, as NAME://HOST:PORT, separated by commas; unset serves none. Without NAME:// "
        "the name is HTTP. The name HTTPS speaks TLS; another name speaks what listener.security.protocol.map says, "
        "PLAINTEXT or SSL.",
        check=parse_http_addresses,
    )
    headwater_http_authentication: tuple[str, ...] = setting(
        LIST,
        "headwater.http.authentication",
        (),
        "How clients of HTTP listeners authenticate: basic (name and password of a user), bearer (a token, as for "
        "OAUTHBEARER). Empty lets everyone in, which is only possible on a loopback address or with client "
        "certificates (ssl.client.auth=required).",
        allowed=HTTP_SCHEMES,
        per_listener=True,
    )
    headwater_http_hosts: frozenset[str] = setting(
        LIST,
        "headwater.http.hosts",
        frozenset(),
        "The names by which clients of HTTP listeners may call this broker (the Host header, without port). Empty: a "
        "listener on a loopback address answers to localhost and its addresses alone, any other to all names.",
        pattern=r"[A-Za-z0-9._\[\]:-]{1,255}",
        dynamic=True,
        per_listener=True,
    )
    headwater_http_cors_origins: frozenset[str] = setting(
        LIST,
        "headwater.http.cors.origins",
        frozenset(),
        "The origins whose pages may use HTTP listeners from a browser, as https://HOST[:PORT]; pages that the "
        "listener's own host serves always may.",
        check=check_origin,
        dynamic=True,
        per_listener=True,
    )
    headwater_http_head_bytes_max: int = setting(
        INT,
        "headwater.http.head.bytes.max",
        32_768,
        "The largest head of an HTTP request: its first line and its header fields.",
        minimum=1024,
        maximum=1_048_576,
        dynamic=True,
    )
    headwater_http_body_bytes_max: int = setting(
        INT,
        "headwater.http.body.bytes.max",
        10_485_760,
        "The largest body of an HTTP request, also after it is decompressed.",
        minimum=1024,
        dynamic=True,
    )
    headwater_http_response_bytes_max: int = setting(
        INT,
        "headwater.http.response.bytes.max",
        10_485_760,
        "The most bytes of records that one HTTP response carries, whatever its request asks for.",
        minimum=1024,
        dynamic=True,
    )
    headwater_http_request_timeout_ms: int = setting(
        INT,
        "headwater.http.request.timeout.ms",
        60_000,
        "How long an HTTP request may take until it is answered with 503. Streams have no such limit.",
        minimum=1,
        dynamic=True,
    )
    headwater_http_wait_ms_max: int = setting(
        INT,
        "headwater.http.wait.ms.max",
        30_000,
        "The longest wait for records that an HTTP request can ask for.",
        minimum=0,
        dynamic=True,
    )
    headwater_http_streams_max: int = setting(
        INT,
        "headwater.http.streams.max",
        5_000,
        "How many event streams and WebSockets are open at once; a further one is answered with 503.",
        minimum=0,
        dynamic=True,
    )

    headwater_http_websocket_message_bytes_max: int = setting(
        INT,
        "headwater.http.websocket.message.bytes.max",
        1_048_576,
        "The largest message that a client may send over a WebSocket, also after it is decompressed.",
        minimum=1024,
        dynamic=True,
    )
    headwater_http_websocket_subscriptions_max: int = setting(
        INT,
        "headwater.http.websocket.subscriptions.max",
        32,
        "How many subscriptions one WebSocket may have at once.",
        minimum=0,
        dynamic=True,
    )
    headwater_http_websocket_ping_interval_ms: int = setting(
        INT,
        "headwater.http.websocket.ping.interval.ms",
        30_000,
        "How often the client of a WebSocket is asked whether it is still there. One that has not answered by the next "
        "time is disconnected.",
        minimum=1000,
        dynamic=True,
    )

    def check(self) -> None:
        super().check()
        # Raises ConfigError if the listener settings contradict each other.
        addresses = self.listener_addresses
        check_inter_broker(addresses, self.inter_broker_listener_name, self.security_inter_broker_protocol)
        for address in addresses:
            if address.name in {each.name for each in self.http_addresses}:
                raise ConfigError(
                    f"headwater.http.listeners: {address.name} is the name of a listener of Kafka clients"
                )
        if self.socket_request_max_bytes > self.queued_max_request_bytes:
            raise ConfigError(
                f"socket.request.max.bytes ({self.socket_request_max_bytes}) is more than queued.max.request.bytes "
                f"({self.queued_max_request_bytes}), so the largest request would never be read"
            )

    @property
    def listener_addresses(self) -> Sequence[ListenerAddress]:
        return listener_addresses(self.listeners, self.advertised_listeners, self.listener_security_protocol_map)

    @property
    def http_addresses(self) -> Sequence[ListenerAddress]:
        """The listeners that serve HTTP. Where clients authenticate by a request's header, the protocol is a SASL one:
        that is what the rules about listeners go by."""
        if self.headwater_http_listeners is None:
            return ()
        return http_addresses(
            self.headwater_http_listeners, self.listener_security_protocol_map, self._has_http_authentication
        )

    def _has_http_authentication(self, listener: str) -> bool:
        own = values_of(self.listener_overrides, listener)
        return bool(own.get("headwater_http_authentication", self.headwater_http_authentication))

    @property
    def all_addresses(self) -> Sequence[ListenerAddress]:
        """The listeners of every protocol."""
        return (*self.listener_addresses, *self.http_addresses)
