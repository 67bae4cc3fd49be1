"""The broker's settings about access: whether rules are enforced, for whom they do not count, how many there may be."""

from collections.abc import Sequence

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, LONG, STRING, setting
from headwater.security.principals import Principal, parse_principal

# Both names of Kafka's authorizer, so that its settings work unchanged, and a short one.
_AUTHORIZERS = (
    "",
    "acl",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


def _principals(text: str) -> Sequence[Principal]:
    return tuple(parse_principal(part) for part in text.split(";") if part.strip())


@broker_settings_class
class AccessSettings(BrokerSettings):
    authorizer_class_name: str = setting(
        STRING,
        "authorizer.class.name",
        "",
        "Who decides what clients may do: acl for the rules of `headwater acl` and `headwater role` (Kafka's class "
        "names mean the same), empty for nobody: every client may do everything.",
        allowed=_AUTHORIZERS,
    )
    super_users: str = setting(
        STRING,
        "super.users",
        "",
        "Principals for whom no rule counts, as User:ann;User:ben.",
        check=_principals,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        BOOLEAN,
        "allow.everyone.if.no.acl.found",
        False,
        "Whether everybody may do everything to a resource that no rule is about.",
    )

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

    headwater_audit: str = setting(
        STRING,
        "headwater.audit",
        "auto",
        "Whether who did what is recorded in the topic __headwater_audit; auto: where clients authenticate or rules "
        "are enforced.",
        allowed=("auto", "on", "off"),
    )
    headwater_audit_granted: bool = setting(
        BOOLEAN,
        "headwater.audit.granted",
        False,
        "Whether the audit log also has operations that were allowed. Reads and writes of a topic are recorded once "
        "for each connection.",
        dynamic=True,
    )
    headwater_audit_events_per_second_max: int = setting(
        INT,
        "headwater.audit.events.per.second.max",
        1_000,
        "How many audit events are recorded per second; the log says how many more there were.",
        minimum=1,
        dynamic=True,
    )
    headwater_audit_retention_ms: int = setting(
        LONG,
        "headwater.audit.retention.ms",
        7_776_000_000,
        "How long audit events are kept: the retention.ms that their topic is created with.",
        minimum=1,
        also=(-1,),
    )

    @property
    def has_authorizer(self) -> bool:
        return bool(self.authorizer_class_name)

    @property
    def super_principals(self) -> Sequence[Principal]:
        return _principals(self.super_users)
