"""Standard output as a pipe whose reader may go away, as `head` does when it has seen enough."""

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def until_pipe_is_closed() -> Generator[None]:
    """Ends the block silently when the reader closes the pipe: that is no failure."""
    try:
        yield
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Points standard output at /dev/null. Otherwise the interpreter writes the rest of its buffer when it exits, fails
    again and complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_reader(stream: BinaryIO) -> None:
    """Raises BrokenPipeError if the reader has closed the pipe. Writing would find out as well, but a command that
    waits for records writes nothing."""
    try:
        descriptor = stream.fileno()
    except OSError:
        return
    poller = select.poll()
    poller.register(descriptor, 0)
    if any(event & select.POLLERR for _, event in poller.poll(0)):
        raise BrokenPipeError
