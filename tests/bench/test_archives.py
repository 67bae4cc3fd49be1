"""Class paths are resolved by Maven once and cached; missing archives are reported with the reason."""

import os
from pathlib import Path

import pytest
from benchmarks.archives import ArchivesMissing, class_path


@pytest.fixture
def pom(tmp_path: Path) -> Path:
    file = tmp_path / "project" / "pom.xml"
    file.parent.mkdir()
    file.write_text("<project/>")
    return file


def maven(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a fake `mvn` on the PATH: the real one may be missing, and would contact a registry."""
    program = directory / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


def test_maven_runs_again_only_when_an_archive_is_gone(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, work = tmp_path / "a.jar", tmp_path / "kept"
    archive.touch()
    maven(tmp_path, f'for word in "$@"; do true; done; echo asked; echo {archive} > "${{word#*=}}"', monkeypatch)

    assert class_path(pom, work) == str(archive)
    assert class_path(pom, work) == str(archive)
    assert (work / "resolve.log").read_text() == "asked\n"

    archive.unlink()
    class_path(pom, work)
    assert (work / "resolve.log").read_text() == "asked\nasked\n"


def test_a_failing_registry_is_reported_without_its_host_name(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, "echo no route to registry.example; exit 1", monkeypatch)

    with pytest.raises(
        ArchivesMissing, match=r"project/pom.xml could not be had .*/kept/resolve.log says why"
    ) as found:
        class_path(pom, tmp_path / "kept")

    assert "registry.example" not in str(found.value)


def test_a_missing_maven_is_reported(pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ArchivesMissing, match="mvn is not on the PATH"):
        class_path(pom, tmp_path / "kept")
