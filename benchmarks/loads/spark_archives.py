"""Spark's own Kafka connector, which comes from Maven: the peer of `format("headwater")`."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.systems import WORK

# The same archives that `make interop` compares ours with.
_POM = Path(__file__).parents[2] / "tests" / "interop" / "java" / "spark" / "pom.xml"
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
_TIMEOUT_S = 600


def connector_archives() -> Sequence[str]:
    """None at all where there is no Maven: ours is then measured alone."""
    maven = shutil.which("mvn")
    if maven is None:
        return ()
    found = WORK / "spark.classpath"
    command = [maven, "--quiet", "--batch-mode", _GOAL, f"-Dmdep.outputFile={found}"]
    done = subprocess.run(
        command, cwd=_POM.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        # What Maven says names hosts, and goes where no result is kept.
        (WORK / "maven.log").write_bytes(done.stdout)
        raise RuntimeError("the peer of this case could not be had from Maven; benchmarks/.work/maven.log says why")
    return found.read_text().strip().split(os.pathsep)
