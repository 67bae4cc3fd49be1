"""Class paths are asked of Maven once, and what cannot be had is said."""

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
    """Stands for Maven, which may not be here and would ask a registry."""
    program = directory / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


def test_maven_is_asked_again_only_when_an_archive_is_gone(
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


def test_a_registry_that_gives_nothing_is_said_without_its_name(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, "echo no route to registry.example; exit 1", monkeypatch)

    with pytest.raises(
        ArchivesMissing, match=r"project/pom.xml could not be had .*/kept/resolve.log says why"
    ) as found:
        class_path(pom, tmp_path / "kept")

    assert "registry.example" not in str(found.value)


def test_no_maven_is_said(pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ArchivesMissing, match="mvn is not on the PATH"):
        class_path(pom, tmp_path / "kept")
