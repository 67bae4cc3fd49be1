"""A pipeline project: a directory with Spark's spec file, and `.headwater/` for all files that running it creates.

Reading a project does not import pyspark, so that `headwater pipeline status` answers quickly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from headwater.config.declaration import nearest
from headwater.errors import HeadwaterError

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_SPEC_BYTES_MAX = 1 << 20
_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")


class ProjectError(HeadwaterError):
    """The project does not exist, or its spec is not one that Spark could run."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files that `run` keeps on this machine: its state, Spark's log, and the tables of an embedded Spark."""

    directory: Path

    @property
    def state(self) -> Path:
        return self.directory / "state.json"

    @property
    def log(self) -> Path:
        return self.directory / "spark.log"

    @property
    def tables(self) -> Path:
        return self.directory / "tables"


@dataclass(frozen=True, slots=True)
class Project:
    spec: Path
    name: str
    # Spark requires a URL with a scheme.
    storage: str
    catalog: str | None
    database: str | None
    configuration: Mapping[str, str]
    libraries: tuple[str, ...]

    @property
    def directory(self) -> Path:
        return self.spec.parent

    @property
    def run_files(self) -> RunFiles:
        return RunFiles(self.directory / ".headwater")


def run_files_of(path: Path) -> RunFiles:
    """The files of the pipeline at `path`. A script's are in `.headwater/NAME`, beside the script NAME.py."""
    if path.suffix == ".py":
        return RunFiles(path.absolute().parent / ".headwater" / path.stem)
    return RunFiles(find_spec(path).parent / ".headwater")


def find_spec(path: Path) -> Path:
    """The spec for `path`: the spec itself, its project's directory, or any directory inside the project."""
    if path.is_file():
        if path.suffix not in {".yml", ".yaml"}:
            raise ProjectError(f"{path} is neither a project's directory, its spec ({SPEC_NAMES[0]}) nor a .py script")
        return path.absolute()
    start = path.absolute()
    if not start.is_dir():
        raise ProjectError(f"{path} does not exist; `headwater pipeline init NAME` writes a project to begin with")
    for directory in (start, *start.parents):
        found = [directory / name for name in SPEC_NAMES if (directory / name).is_file()]
        if len(found) > 1:
            raise ProjectError(f"{directory} holds both {' and '.join(SPEC_NAMES)}: remove one of them")
        if found:
            return found[0]
    raise ProjectError(
        f"neither {path} nor a directory above it holds {SPEC_NAMES[0]}; "
        "`headwater pipeline init NAME` writes a project to begin with"
    )


def load(path: Path) -> Project:
    spec = find_spec(path)
    fields = _read(spec)
    for name in fields:
        if name not in _FIELDS:
            meant = nearest(name, _FIELDS)
            hint = f"; did you mean {meant!r}?" if meant else f"; a spec has {', '.join(_FIELDS)}"
            raise ProjectError(f"{spec}: unknown field {name!r}{hint}")
    catalog, database, schema = (_text(spec, fields, name) for name in ("catalog", "database", "schema"))
    return Project(
        spec=spec,
        name=_required(spec, fields, "name"),
        storage=_storage_url(spec.parent, _required(spec, fields, "storage")),
        catalog=catalog,
        database=database or schema,
        configuration=_configuration(spec, fields.get("configuration")),
        libraries=_libraries(spec, fields.get("libraries")),
    )


def _read(spec: Path) -> dict[str, Any]:
    with spec.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_SPEC_BYTES_MAX + 1)
    if len(text) > _SPEC_BYTES_MAX:
        raise ProjectError(f"{spec} is larger than {_SPEC_BYTES_MAX} bytes")
    try:
        fields = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProjectError(f"{spec} is not YAML: {error}") from None
    if not isinstance(fields, dict):
        raise ProjectError(f"{spec} holds no fields; it needs at least name, storage and libraries")
    return {str(name): value for name, value in cast("dict[object, Any]", fields).items()}


def _text(spec: Path, fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ProjectError(f"{spec}: {name} is {value!r}, but has to be text; put it in quotes")
    return value


def _required(spec: Path, fields: Mapping[str, Any], name: str) -> str:
    value = _text(spec, fields, name)
    if not value:
        raise ProjectError(f"{spec}: {name} is missing")
    return value


def _storage_url(directory: Path, storage: str) -> str:
    """Spark accepts absolute locations only. A spec with a relative one lets the project be moved with its storage."""
    return storage if "://" in storage else f"file://{(directory / storage).resolve()}"


def _configuration(spec: Path, given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ProjectError(f"{spec}: configuration has to be Spark settings by name")
    settings = cast("dict[object, object]", given)
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ProjectError(f"{spec}: configuration: {name}: {value!r} has to be text; put it in quotes")
    return cast("dict[str, str]", given)


def _libraries(spec: Path, given: object) -> tuple[str, ...]:
    """Spark allows two kinds of pattern: a file, or all files below a directory (`/**`)."""
    patterns: list[str] = []
    for entry in cast("list[Any]", given) if isinstance(given, list) else []:
        try:
            pattern = entry["glob"]["include"]
        except (KeyError, TypeError):
            pattern = None
        if not isinstance(pattern, str) or "*" in pattern.removesuffix("/**"):
            raise ProjectError(
                f"{spec}: libraries: {entry!r} has to be {{glob: {{include: PATTERN}}}}, where PATTERN is a file or "
                "a directory followed by /**, such as transformations/**"
            )
        patterns.append(pattern)
    if not patterns:
        raise ProjectError(
            f"{spec}: libraries is empty; it names definitions: `- glob: {{include: transformations/**}}`"
        )
    return tuple(patterns)
