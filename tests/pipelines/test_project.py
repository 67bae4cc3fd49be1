"""Finding the project directory, and the rules of its spec file."""

from pathlib import Path

import pytest

from headwater.pipelines import template
from headwater.pipelines.project import ProjectError, find_spec, load, run_files_of

LIBRARIES = "libraries:\n  - glob:\n      include: transformations/**\n"


def spec(directory: Path, text: str) -> Path:
    path = directory / "spark-pipeline.yml"
    path.write_text(text)
    return path


def test_a_new_project_can_be_loaded_and_moved(tmp_path: Path) -> None:
    template.write(tmp_path, "sales")
    (tmp_path / "sales").rename(tmp_path / "moved")

    project = load(tmp_path / "moved")

    assert project.name == "sales"
    assert project.storage == f"file://{tmp_path}/moved/.headwater/storage"
    assert project.libraries == ("transformations/**",)
    assert project.configuration == {"spark.sql.shuffle.partitions": "2"}


def test_a_project_is_found_from_any_directory_inside_it(tmp_path: Path) -> None:
    template.write(tmp_path, "sales")

    assert find_spec(tmp_path / "sales" / "transformations") == tmp_path / "sales" / "spark-pipeline.yml"
    assert find_spec(tmp_path / "sales" / "spark-pipeline.yml") == tmp_path / "sales" / "spark-pipeline.yml"
    assert (
        run_files_of(tmp_path / "sales" / "transformations").state == tmp_path / "sales" / ".headwater" / "state.json"
    )


def test_a_script_keeps_its_state_beside_itself(tmp_path: Path) -> None:
    assert run_files_of(tmp_path / "job.py").log == tmp_path / ".headwater" / "job" / "spark.log"


def test_a_storage_with_a_scheme_is_taken_as_it_is(tmp_path: Path) -> None:
    spec(tmp_path, f"name: a\nstorage: s3a://bucket/a\nschema: sales\ncatalog: main\n{LIBRARIES}")

    project = load(tmp_path)

    assert (project.storage, project.database, project.catalog) == ("s3a://bucket/a", "sales", "main")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "is not YAML"),
        ("- name", "holds no fields"),
        (f"storage: s\n{LIBRARIES}", "name is missing"),
        (f"name: 7\nstorage: s\n{LIBRARIES}", "name is 7, but has to be text"),
        (f"name: a\nstorag: s\n{LIBRARIES}", "unknown field 'storag'; did you mean 'storage'"),
        (f"name: a\nstorage: s\nzzz: 1\n{LIBRARIES}", "unknown field 'zzz'; a spec has name"),
        ("name: a\nstorage: s\n", "libraries is empty"),
        ("name: a\nstorage: s\nlibraries: [transformations]\n", "libraries: 'transformations' has to be"),
        ("name: a\nstorage: s\nlibraries: [{glob: {include: 'a/**/*.py'}}]\n", "a directory followed by"),
        (f"name: a\nstorage: s\nconfiguration: [1]\n{LIBRARIES}", "configuration has to be"),
        (f"name: a\nstorage: s\nconfiguration: {{a: 1}}\n{LIBRARIES}", "put it in quotes"),
        ("#" * (1 << 20) + "\nname: a", "is larger than"),
    ],
)
def test_an_invalid_spec_is_refused_with_advice(tmp_path: Path, text: str, message: str) -> None:
    spec(tmp_path, text)

    with pytest.raises(ProjectError, match=message):
        load(tmp_path)


def test_two_specs_in_a_project_are_refused(tmp_path: Path) -> None:
    spec(tmp_path, "name: a").rename(tmp_path / "spark-pipeline.yaml")
    spec(tmp_path, "name: a")

    with pytest.raises(ProjectError, match="remove one of them"):
        find_spec(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "notes.txt", ""])
def test_without_a_project_the_error_says_how_to_create_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("")

    with pytest.raises(ProjectError, match=r"headwater pipeline init NAME|neither a project"):
        find_spec(tmp_path / name)


@pytest.mark.parametrize("name", ["", "1st", "a b", "../up", "a" * 65])
def test_a_project_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProjectError, match="cannot be a project's name"):
        template.write(tmp_path, name)


def test_a_project_overwrites_nothing(tmp_path: Path) -> None:
    template.write(tmp_path, "sales")

    with pytest.raises(ProjectError, match="exists already"):
        template.write(tmp_path, "sales")
