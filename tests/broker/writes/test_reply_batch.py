"""Replies that leave together."""

from headwater.broker.writes.reply_batch import ReplyBatch


class Sender:
    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self._error = error

    def send_ready(self) -> None:
        self.count += 1
        if self._error is not None:
            raise self._error


def test_each_sends_once_and_whoever_cannot_keeps_nobody_from_it() -> None:
    gathering = ReplyBatch()
    broken, sound = Sender(RuntimeError("planted")), Sender()
    assert not gathering.takes(sound)
    for _ in range(2):
        with gathering:
            for sender in (broken, sound, broken, sound):
                assert gathering.takes(sender)
    assert (broken.count, sound.count) == (2, 2)
    assert not gathering.takes(sound)
