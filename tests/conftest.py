"""For all tests: no property has a time limit, because how fast an example runs says nothing about what it shows; and
files are kept in memory where there is room, because no test asks what a real disk keeps: a crash is a recorded one, or
a process that is killed. Java starts quickly, because no test runs for long."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from tests.support.spark.java import SPARK_ENVIRONMENT

MEMORY = Path("/dev/shm")
# Far more than all tests hold at once; a container often has 64 MiB, which is not enough.
ROOM_BYTES = 4 << 30

settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")

# Whoever names a directory gets that one. Processes that tests start inherit it.
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# A shell has what runs in the background ignore interruptions, and every process that a test starts inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every Spark that a test starts, whichever process it is in. Whoever sets these gets his own.
for name, value in SPARK_ENVIRONMENT.items():
    os.environ.setdefault(name, value)
