import logging

import pytest
from kio.schema.index import api_key_map

from headwater.listeners.kafka.api_names import NAMES, api_name
from headwater.listeners.kafka.api_table import BY_KEY
from tests.support.kafka.raw_client import RawClient


def test_apis_have_kafkas_names() -> None:
    assert {key: NAMES[key].lower() for key in api_key_map} == {
        key: name.replace("_", "") for key, name in api_key_map.items()
    }
    assert {key: NAMES[key] for key in BY_KEY if key < 10_000} == {
        key: api.name for key, api in BY_KEY.items() if key < 10_000
    }


def test_a_key_that_is_nobodys_stands_for_itself() -> None:
    assert api_name(999) == "API key 999"


def test_the_refusal_of_an_api_that_is_not_served_logs_its_name(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    client.send_bytes(bytes.fromhex("0000000b 0039 0000 00000001 000178"))

    assert client.is_closed()
    assert "UpdateFeatures (API key 57) is not served here" in caplog.text
