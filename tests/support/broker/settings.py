"""Settings for brokers that serve many tests."""

from collections.abc import Mapping

# Retention runs 30 seconds after a broker's start and then every five minutes. It would delete records to which a test
# gives timestamps of long ago, if it happened to run between the test's write and its read.
NO_HOUSEKEEPING: Mapping[str, str] = {"log.initial.task.delay.ms": "86400000"}

# Rules are kept and count, but not for the clients of these tests, which have no name.
RULES_FOR_OTHERS: Mapping[str, str] = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}
