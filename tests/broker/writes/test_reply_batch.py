"""Replies of many connections that are sent when the batch ends."""

from headwater.broker.writes.journal import ReplyBatch


class Sender:
    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self._error = error

    def send_ready(self) -> None:
        self.count += 1
        if self._error is not None:
            raise self._error


def test_each_connection_sends_once_and_a_failing_one_does_not_prevent_others() -> None:
    batch = ReplyBatch()
    broken, sound = Sender(RuntimeError("planted")), Sender()
    assert not batch.takes(sound)
    for _ in range(2):
        with batch:
            for sender in (broken, sound, broken, sound):
                assert batch.takes(sender)
    assert (broken.count, sound.count) == (2, 2)
    assert not batch.takes(sound)
