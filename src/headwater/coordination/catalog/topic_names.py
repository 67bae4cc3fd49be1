"""Topic names: which are legal, and which are the broker's own."""

import re

from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicName

TOPIC_NAME_LENGTH_MAX = 249
RESERVED_PREFIX = "__headwater_"
# Stores groups and their committed offsets.
OFFSETS_TOPIC = TopicName("__consumer_offsets")
# Stores transactional ids and the state of their transactions.
TRANSACTIONS_TOPIC = TopicName("__transaction_state")
# Stores what share groups have done with.
SHARE_STATE_TOPIC = TopicName("__share_group_state")
# Tells who did what; Spark and any consumer that may read it read it by name.
AUDIT_TOPIC = TopicName("__headwater_audit")
# Stores records that are to be delivered later.
SCHEDULE_TOPIC = TopicName("__headwater_schedule")
# Stores schemas, by the name that other registries use. It is internal only where the broker is a registry: beside
# another registry it is a topic like any other (`Topics.reserve`).
SCHEMAS_TOPIC = TopicName("_schemas")
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, AUDIT_TOPIC, SCHEDULE_TOPIC})

_LEGAL_NAME = r"[a-zA-Z0-9._-]+"


def is_internal(name: str) -> bool:
    """Internal topics are written by the broker alone, and no subscription by regular expression includes them."""
    return name in INTERNAL_TOPICS or name.startswith(RESERVED_PREFIX)


def check_topic_name(name: str) -> None:
    """Kafka's rules: the name becomes a directory, and '.' and '_' are one character in metric names."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' and '..' are not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"it is longer than {TOPIC_NAME_LENGTH_MAX} characters"
    elif not re.fullmatch(_LEGAL_NAME, name):
        problem = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    elif name.startswith(RESERVED_PREFIX) and name not in INTERNAL_TOPICS:
        problem = f"the prefix '{RESERVED_PREFIX}' is reserved"
    else:
        return
    raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name '{name[:TOPIC_NAME_LENGTH_MAX]}': {problem}")


def metric_name(name: str) -> str:
    return name.replace(".", "_")
