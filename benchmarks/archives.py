"""Class paths of Java programs, whose archives come from Maven and stay in its own directory.

The output of Maven contains host names, so it goes to a file and not to the terminal.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
_TIMEOUT_S = 600


class ArchivesMissing(Exception):
    """The archives cannot be resolved; the message says why."""


def class_path(pom: Path, work: Path, properties: Mapping[str, str] | None = None) -> str:
    """Ask Maven once, and again when the project's file has changed or an archive is gone. `properties` are what the
    project's file leaves open, a version for example."""
    defines = [f"-D{name}={value}" for name, value in (properties or {}).items()]
    known = work / "-".join((pom.parent.name, *(properties or {}).values(), "classpath"))
    with one_at_a_time(work):
        if not _is_current(known, pom):
            _resolve(pom, known, work / "resolve.log", defines)
        return known.read_text().strip()


@contextmanager
def one_at_a_time(work: Path) -> Generator[None]:
    """A lock between processes, which share the directory."""
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_current(known: Path, pom: Path) -> bool:
    if not known.exists() or known.stat().st_mtime < pom.stat().st_mtime:
        return False
    return all(Path(entry).exists() for entry in known.read_text().strip().split(os.pathsep))


def _resolve(pom: Path, known: Path, log: Path, defines: Sequence[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ArchivesMissing("mvn is not on the PATH; `apt-get install maven` brings it")
    command = [maven, "--quiet", "--batch-mode", _GOAL, f"-Dmdep.outputFile={known}", *defines]
    with log.open("ab") as output:
        done = subprocess.run(command, cwd=pom.parent, stdout=output, stderr=output, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        where = f"{log.parent.parent.name}/{log.parent.name}/{log.name}"
        what = f"the archives of {pom.parent.name}/{pom.name}"
        raise ArchivesMissing(f"{what} could not be had from the package registry; {where} says why")
