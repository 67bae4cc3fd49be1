"""The broker's settings of rules and roles: how many it keeps."""

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import INT, setting


@broker_settings_class
class AccessSettings(BrokerSettings):
    headwater_acls_max: int = setting(
        INT,
        "headwater.acls.max",
        100_000,
        "How many ACLs the broker keeps before it refuses new ones.",
        minimum=1,
        dynamic=True,
    )
    headwater_roles_max: int = setting(
        INT,
        "headwater.roles.max",
        1_000,
        "How many roles the broker keeps, beside the ready ones, before it refuses new ones.",
        minimum=1,
        dynamic=True,
    )
    headwater_role_grants_max: int = setting(
        INT,
        "headwater.role.grants.max",
        10_000,
        "How many grants of roles the broker keeps before it refuses new ones. Each takes the memory of several ACLs.",
        minimum=1,
        dynamic=True,
    )
