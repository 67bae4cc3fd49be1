"""Addresses, as people write them."""

import pytest

from headwater.endpoint import Endpoint


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("PLAINTEXT://broker.example:0", "broker.example", 0),
        ("plaintext://[::1]:9092", "::1", 9092),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65_535),
        (":9092", "", 9092),
    ],
)
def test_addresses_are_read_in_every_usual_spelling(text: str, host: str, port: int) -> None:
    endpoint = Endpoint.parse(text)
    assert endpoint == (host, port)
    assert Endpoint.parse(str(endpoint)) == endpoint
