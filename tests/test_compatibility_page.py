"""`docs/compatibility.md` is what `make interop-matrix` wrote, about the clients that are declared today."""

from tests.interop.matrix.declaration import MATRIX
from tests.interop.matrix.page import PAGE, parse, render

WRITTEN = PAGE.read_text()
ROWS = parse(WRITTEN)


def test_the_page_has_every_client_of_the_matrix_and_no_other() -> None:
    assert [(row.client, row.version, row.steps) for row in ROWS] == [
        (entry.client, entry.version, entry.steps) for entry in MATRIX
    ]


def test_every_client_works_or_is_skipped_for_a_reason() -> None:
    skipped = [row for row in ROWS if row.outcome.startswith("skipped: ") and len(row.outcome) > len("skipped: ")]

    assert [row for row in ROWS if row.outcome != "ok" and row not in skipped] == []


def test_the_page_is_written_by_the_matrix() -> None:
    assert render(ROWS) == WRITTEN


def test_the_newest_of_every_client_is_tried_with_every_change() -> None:
    last = {entry.client: entry for entry in MATRIX if entry.language != "spark"}

    assert [entry for entry in last.values() if not entry.is_quick] == []
