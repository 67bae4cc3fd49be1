"""fdatasync in the kernel's own threads, through Linux AIO.

A thread that waits for the disk takes the GIL several times per flush, which costs more CPU than the flush itself. Here
a flush is one system call to submit and one to collect, both on the caller's thread; an eventfd becomes readable in
between. On a platform without Linux AIO, `KernelSync()` raises OSError.

The kernel's threads need a core, too: where all cores were busy they have been seen to wait twenty seconds for one. A
caller that cannot wait may sync the file itself meanwhile. Linux reports a writeback error once per open file
description, and the kernel syncs through a second one: neither sync takes the error from the other.
"""

import ctypes
import errno
import os
import platform
from struct import Struct
from typing import Final

from headwater.storage.disk import File

# io_setup, io_destroy, io_submit, io_getevents
_CALLS: Final = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
_FDATASYNC: Final = 3
_SIGNAL_EVENTFD: Final = 1
# struct iocb: token, key, flags of the operation, operation, priority, descriptor, buffer, length, position, reserved,
# flags, eventfd
_REQUEST: Final = Struct("<QIIHhiQQqQII")
# struct io_event: token, request, result, second result
_EVENT: Final = Struct("<QQqq")
_EVENTS_MAX: Final = 64


class KernelSync:
    """Submits syncs, each with a token that the caller chooses, and collects their results."""

    def __init__(self, pending_max: int) -> None:
        calls = _CALLS.get(platform.machine())
        if calls is None:
            raise OSError(errno.ENOSYS, "no system call numbers are known for this machine")
        self._setup_call, self._destroy_call, self._submit_call, self._collect_call = calls
        # Neither call waits for anything, so PyDLL keeps the GIL.
        self._library = ctypes.PyDLL(None, use_errno=True)
        self._context = ctypes.c_ulong(0)
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(_EVENT.size * _EVENTS_MAX)
        self._no_time = (ctypes.c_long * 2)(0, 0)
        self._call(self._setup_call, pending_max, ctypes.byref(self._context))
        self._ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """The descriptor that is readable when a sync has ended."""
        return self._ready

    def submit(self, file: File, token: int) -> None:
        """Begins a sync; an OSError means that none was begun."""
        descriptor = file.second_opening()
        _REQUEST.pack_into(
            self._request, 0, token, 0, 0, _FDATASYNC, 0, descriptor, 0, 0, 0, 0, _SIGNAL_EVENTFD, self._ready
        )
        self._call(self._submit_call, self._context, 1, self._requests)

    def collect(self) -> list[tuple[int, OSError | None]]:
        """The tokens of the syncs that have ended, each with its error or None."""
        try:
            os.eventfd_read(self._ready)
        except BlockingIOError:
            return []
        ended: list[tuple[int, OSError | None]] = []
        while True:
            count = self._call(self._collect_call, self._context, 0, _EVENTS_MAX, self._events, self._no_time)
            for number in range(count):
                token, _, result, _ = _EVENT.unpack_from(self._events, number * _EVENT.size)
                ended.append((token, OSError(-result, os.strerror(-result)) if result < 0 else None))
            if count < _EVENTS_MAX:
                return ended

    def close(self) -> None:
        """Waits for the syncs that are under way."""
        self._call(self._destroy_call, self._context)
        os.close(self._ready)

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._library.syscall(number, *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result
