"""The same loads over TLS: bulk, one-record requests, handshakes, and the memory of connections."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.cases.memory import API_VERSIONS_VERSION, CONNECTIONS, HELLO
from benchmarks.certificates import Certificates
from benchmarks.clients import explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import frames, librdkafka, requests, tls_handshakes, warm_up
from benchmarks.ports import port_of, reserved_port
from benchmarks.processes import resident_bytes
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

SSL = "SSL"
CLIENTS = 2
REQUESTS_TOPIC = "tls-requests"


def _warm_up(system: System, broker: BrokerProcess, certificates: Certificates, scale: Scale) -> None:
    create_topic(broker.address, bulk.WARM_UP_TOPIC, 1, system.topic_settings(Flush.OS))
    load = partial(warm_up.produce_and_fetch, topic=bulk.WARM_UP_TOPIC, seconds=scale.warm_up_seconds)
    run(broker, partial(load, address=broker.addresses[SSL], access=certificates.access))


def _bulk(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    certificates, workload = Certificates(directory), bulk.Workload("1 KiB")
    with system.start(directory, certificates.settings()) as broker:
        _warm_up(system, broker, certificates, scale)
        settings = {**system.topic_settings(Flush.OS), "max.message.bytes": bulk.MESSAGE_BYTES_MAX}
        create_topic(broker.address, workload.topic, workload.partitions, settings)
        records = workload.records(scale)
        page_cache.prepare(broker.directory, records * workload.record_bytes)
        address, access = broker.addresses[SSL], certificates.access.librdkafka()
        amount = {"topic": workload.topic, "records": records, "record_bytes": workload.record_bytes}
        produced = run(broker, partial(librdkafka.produce, address=address, settings=access, **amount))
        check_record_count(broker.address, workload.topic, workload.partitions, records)
        yield from bulk.figures(produced, f"{workload.name}: produce")
        read = partial(librdkafka.consume, partitions=workload.partitions, settings=access, **amount)
        yield from bulk.figures(run(broker, partial(read, address=address)), f"{workload.name}: consume")


def _requests(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    certificates = Certificates(directory)
    with system.start(directory, certificates.settings()) as broker:
        _warm_up(system, broker, certificates, scale)
        for connections in scale.connections[:3]:
            topic = f"{REQUESTS_TOPIC}-{connections}"
            create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
            load = partial(requests.produce, topic=topic, partitions=1, connections=connections, acks=1)
            load = partial(load, address=broker.addresses[SSL], access=certificates.access)
            measured = run(broker, partial(load, seconds=scale.seconds))
            outcome = measured.outcomes[0]
            check_record_count(broker.address, topic, 1, connections + outcome.records)
            name = f"acks=1, {connections:,} connection{'s' if connections > 1 else ''}"
            yield explained(measured, name, "requests/s", outcome.records_per_second)
            yield Figure(f"{name}: p99", "ms", outcome.p99_ms)
            yield Figure(f"{name}: broker CPU", "us/request", measured.broker.total_s / outcome.records * 1e6)


# -- handshakes


class OpensslServer(BrokerProcess):
    """OpenSSL's own server with the same certificate: the least that a handshake costs."""

    def __init__(self, certificates: Certificates, directory: Path, port: int) -> None:
        command = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(certificates.server)]
        # As our listener: no tickets, which clients would have to take in.
        super().__init__([*command, "-num_tickets", "0", "-quiet", "-www"], directory, os.environ)
        self.address = f"127.0.0.1:{port}"

        deadline = self.started + frames.TIMEOUT_S
        while True:
            try:
                frames.connect(self.address).close()
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    self.kill()
                    raise
            time.sleep(0.01)

    def stop(self) -> None:
        """It takes no signal for a clean end."""
        self.kill()


def _handshakes(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    certificates = Certificates(directory)
    load = partial(tls_handshakes.shake_hands, access=certificates.access, seconds=scale.seconds)
    with system.start(directory, certificates.settings()) as broker:
        _warm_up(system, broker, certificates, scale)
        measured = run(broker, *[partial(load, address=broker.addresses[SSL])] * CLIENTS)
        ours = _per_core(measured.broker.total_s, [outcome.records for outcome in measured.outcomes])
        rate = sum(outcome.records_per_second for outcome in measured.outcomes)
        yield explained(measured, "handshakes", "1/s", rate)
        yield Figure("handshakes per core", "1/s", ours)
    openssl_directory = directory / "openssl"
    openssl_directory.mkdir()
    with reserved_port() as reserved, OpensslServer(certificates, openssl_directory, port_of(reserved)) as server:
        measured = run(server, *[partial(load, address=server.address)] * CLIENTS)
        theirs = _per_core(measured.broker.total_s, [outcome.records for outcome in measured.outcomes])
        yield Figure("handshakes per core of OpenSSL's own server", "1/s", theirs)
    yield Figure("handshakes per core, ratio to OpenSSL's own server", "", ours / theirs)


def _per_core(cpu_s: float, counts: list[int]) -> float:
    # The kernel counts CPU time in ticks: a short measurement may have had none.
    return sum(counts) / max(cpu_s, 0.01)


def _openssl_missing() -> str:
    try:
        subprocess.run(["openssl", "version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "openssl is not on the PATH"
    return ""


# -- memory


def _memory(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:  # noqa: ARG001 (one size only)
    certificates = Certificates(directory)
    hello = frames.request_frame(HELLO, API_VERSIONS_VERSION)
    with system.start(directory, certificates.settings()) as broker:
        address, access = broker.addresses[SSL], certificates.access
        # The first request loads modules that an idle broker does not need.
        with frames.connect(address, access) as connection:
            frames.exchange(connection, hello)
        idle = resident_bytes(broker.processes)
        yield Figure("idle", "MB", idle / 1e6)
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                frames.exchange(stack.enter_context(frames.connect(address, access)), hello)
            added = resident_bytes(broker.processes) - idle
        yield Figure(f"{CONNECTIONS} idle connections", "MB", added / 1e6)
        yield Figure("one idle connection", "KB", added / CONNECTIONS / 1e3)


TLS_BULK = Case("tls-bulk", "as sizes with 1 KiB, over TLS: librdkafka, TLS 1.3 with a certificate on P-256", _bulk)
TLS_REQUESTS = Case("tls-requests", "as requests-os with acks=1, over TLS", _requests)
TLS_HANDSHAKES = Case(
    "tls-handshakes",
    f"full TLS 1.3 handshakes of {CLIENTS} clients, beside OpenSSL's s_server with the same certificate and clients; "
    "per core: by the CPU seconds of the server",
    _handshakes,
    missing=_openssl_missing,
)
TLS_MEMORY = Case("tls-memory", f"what {CONNECTIONS} idle TLS connections add to the resident memory", _memory)
