"""Spark's own Kafka connector, which comes from Maven: the peer of `format("headwater")`."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.archives import class_path
from benchmarks.work import WORK

# The same archives that `make interop` compares ours with.
_POM = Path(__file__).parents[2] / "tests" / "interop" / "java" / "spark" / "pom.xml"


def connector_archives() -> Sequence[str]:
    """None at all where there is no Maven: ours is then measured alone."""
    if shutil.which("mvn") is None:
        return ()
    return class_path(_POM, WORK).split(os.pathsep)
