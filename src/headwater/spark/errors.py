"""How errors of this source reach people: as the sentence that says what to change, without the Python stack."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from headwater.errors import HeadwaterError

# Read by pyspark's workers when they report an error.
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
# Imported by those workers alone.
_WORKER: Final = "pyspark.worker_util"


@contextmanager
def sentence_only() -> Generator[None]:
    """Context manager for calls of Spark that run in a worker process of their own, which an error ends.

    Only refusals are shortened. The stack of a bug stays.
    """
    try:
        yield
    except HeadwaterError:
        if _WORKER in sys.modules:
            os.environ[_HIDE] = "1"
        raise
