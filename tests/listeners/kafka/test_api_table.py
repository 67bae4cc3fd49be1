"""The table repeats what the messages declare, so that an API is known before it is loaded."""

from headwater.listeners.kafka.api_table import API_VERSIONS_KEY, APIS


def test_the_table_says_what_the_messages_declare() -> None:
    for api in APIS:
        request, _ = api.load()
        flexible_from = request.versions.stop if request.flexible_from is None else request.flexible_from
        declared = (request.api_key, request.__name__, request.versions, flexible_from)
        versions = range(api.first_version, api.last_version + 1)
        assert (api.key, f"{api.name}Request", versions, api.flexible_from) == declared


def test_apis_are_in_the_order_of_their_keys() -> None:
    assert [api.key for api in APIS] == sorted({api.key for api in APIS})
    assert {api.name: api.key for api in APIS}["ApiVersions"] == API_VERSIONS_KEY
