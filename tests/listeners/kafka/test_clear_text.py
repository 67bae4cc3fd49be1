"""The warning about secrets that travel unencrypted."""

import pytest

from headwater.config.listeners import ListenerAddress, SecurityProtocol
from headwater.endpoint import Endpoint
from headwater.listeners.kafka.listener import _warn_of_clear_text

SCRAM = "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("protocol", "host", "mechanisms", "named"),
    [
        (SecurityProtocol.SASL_PLAINTEXT, "192.0.2.1", [SCRAM, "PLAIN"], ["PLAIN"]),
        (SecurityProtocol.SASL_PLAINTEXT, "0.0.0.0", ["OAUTHBEARER", "PLAIN"], ["PLAIN", "OAUTHBEARER"]),
        (SecurityProtocol.SASL_PLAINTEXT, "192.0.2.1", [SCRAM], []),
        (SecurityProtocol.SASL_PLAINTEXT, "127.0.0.1", ["PLAIN"], []),
        (SecurityProtocol.SASL_SSL, "192.0.2.1", ["PLAIN"], []),
    ],
)
def test_it_comes_where_others_could_listen_in(
    caplog: pytest.LogCaptureFixture, protocol: SecurityProtocol, host: str, mechanisms: list[str], named: list[str]
) -> None:
    _warn_of_clear_text(ListenerAddress("OUTSIDE", protocol, Endpoint(host, 1), None), mechanisms)

    assert caplog.messages == [
        f"listener OUTSIDE: clients of other machines send their secrets unencrypted ({each}); SASL_SSL encrypts them"
        for each in named
    ]
