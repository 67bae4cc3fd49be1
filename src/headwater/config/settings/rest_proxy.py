"""The broker's settings of the REST proxy: whether there is one, and what its consumers may take."""

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, STRING, setting


@broker_settings_class
class RestProxySettings(BrokerSettings):
    headwater_rest_proxy_enable: bool = setting(
        BOOLEAN,
        "headwater.rest.proxy.enable",
        False,
        "Whether HTTP listeners serve the API of Confluent's REST Proxy (v2): /topics, /consumers and /brokers.",
    )
    headwater_rest_proxy_base_uri: str = setting(
        STRING,
        "headwater.rest.proxy.base.uri",
        "",
        "The address under which clients reach the REST proxy, as https://HOST[:PORT][/PATH], for the base_uri of "
        "consumers. Empty: as the client's request has it.",
        dynamic=True,
    )
    headwater_rest_proxy_consumers_max: int = setting(
        INT,
        "headwater.rest.proxy.consumers.max",
        1_000,
        "How many consumers the clients of the REST proxy may have at once.",
        minimum=1,
        dynamic=True,
    )
    headwater_rest_proxy_consumers_max_per_user: int = setting(
        INT,
        "headwater.rest.proxy.consumers.max.per.user",
        200,
        "How many consumers of the REST proxy one user may have at once.",
        minimum=1,
        dynamic=True,
    )
    headwater_rest_proxy_consumer_idle_ms: int = setting(
        INT,
        "headwater.rest.proxy.consumer.idle.ms",
        300_000,
        "A consumer of the REST proxy that no request has used for so long is deleted, and leaves its group.",
        minimum=1_000,
        dynamic=True,
    )
