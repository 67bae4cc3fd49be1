"""Warnings that strangers cause are limited in number, whatever they are about."""

import logging

import pytest

from headwater.listeners.tcp.failure_log import LOGGED_MAX, FailureLog

logger = logging.getLogger(__name__)


def test_so_many_failures_of_a_kind_are_logged_and_the_others_counted(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog()
    for number in range(LOGGED_MAX + 5):
        failures.warn(logger, "failed tries", "try %d failed", number)
    failures.warn(logger, "other failures", "something %s failed", "else")

    assert caplog.messages == [*(f"try {number} failed" for number in range(LOGGED_MAX)), "something else failed"]

    caplog.clear()
    failures.sweep()
    assert caplog.messages == ["5 more failed tries in the last second are not logged one by one"]

    failures.warn(logger, "failed tries", "try %d failed", 100)
    assert caplog.messages[1:] == ["try 100 failed"], "after a sweep there is room again"
    failures.sweep()
    assert len(caplog.messages) == 2
