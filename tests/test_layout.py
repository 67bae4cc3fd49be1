"""Where tests and what they share may stand."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SUPPORT = TESTS / "support"


def modules() -> list[Path]:
    return [path for path in TESTS.rglob("*.py") if ".work" not in path.parts]


def imported(path: Path) -> Iterator[str]:
    """The full names of all modules, and of what is taken from them, that a module of ours imports anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module, names, level):
                assert level == 0, f"{path} has a relative import"
                yield from (f"{module}.{each.name}" for each in names)
            case _:
                pass


def test_no_module_imports_a_test_or_a_conftest() -> None:
    """What two of them need is a module of its own: beside them, or in `tests/support`."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        for name in imported(path)
        if name.startswith("tests.") and any(part.startswith("test_") or part == "conftest" for part in name.split("."))
    ]

    assert found == []


def test_support_holds_no_tests() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in modules()
        if path.is_relative_to(SUPPORT)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]

    assert found == []
    assert list(SUPPORT.rglob("test_*")) == []


def test_every_directory_of_tests_is_a_package() -> None:
    """Or modules of one name in two of them could not be told apart."""
    assert [path.parent for path in modules() if not (path.parent / "__init__.py").is_file()] == []
