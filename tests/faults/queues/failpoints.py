"""Where a broker kills itself while it works for queues and delayed records (`tests/faults/kills/failpoints.py`)."""

from tests.faults.kills.failpoints import Failpoint

QUEUE_FAILPOINTS = {
    "mid-acknowledge": Failpoint("write", "amid", "__share_group_state-*/*.log", 40),
    "after-acknowledge": Failpoint("write", "after", "__share_group_state-*/*.log", 40),
    "before-acknowledge-sync": Failpoint("sync", "before", "__share_group_state-*/*.log", 20),
    "mid-dead-letter": Failpoint("write", "amid", "orders.dlq-*/*.log", 6),
    "after-dead-letter": Failpoint("write", "after", "orders.dlq-*/*.log", 6),
    "mid-schedule": Failpoint("write", "amid", "__headwater_schedule-*/*.log", 30),
    "after-schedule": Failpoint("write", "after", "__headwater_schedule-*/*.log", 30),
    "mid-delivery": Failpoint("write", "amid", "reminders-*/*.log", 30),
    "after-delivery": Failpoint("write", "after", "reminders-*/*.log", 30),
}
