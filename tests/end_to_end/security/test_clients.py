"""Real clients do all of their work through every way to authenticate."""

import pytest

from tests.support.security.clients import CLIENTS
from tests.support.security.logins import MECHANISMS, SASL_PLAINTEXT, SASL_SSL, SSL
from tests.support.security.secured_broker import SecuredBroker

each_client = pytest.mark.parametrize("client", CLIENTS)


@each_client
@pytest.mark.parametrize(("protocol", "mechanism"), [(SSL, ""), *((SASL_SSL, each) for each in MECHANISMS)])
def test_a_client_writes_reads_and_is_in_groups_and_transactions(
    broker: SecuredBroker, topic: str, client: str, protocol: str, mechanism: str
) -> None:
    ann = CLIENTS[client](broker.login(protocol, mechanism))

    ann.produce(topic, [b"1", b"2"])
    ann.produce_in_transaction(topic, [b"3", b"4"])

    assert ann.consume(topic, 4) == [b"1", b"2", b"3", b"4"]
    assert ann.consume_as_group(topic, f"of-{topic}", 3) == [b"1", b"2", b"3"]
    assert ann.consume_as_group(topic, f"of-{topic}", 1) == [b"4"], "the group's offset was not committed"


@each_client
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_authenticates_without_tls(broker: SecuredBroker, topic: str, client: str, mechanism: str) -> None:
    ann = CLIENTS[client](broker.login(SASL_PLAINTEXT, mechanism))

    ann.produce_in_transaction(topic, [b"1"])

    assert ann.consume(topic, 1) == [b"1"]
