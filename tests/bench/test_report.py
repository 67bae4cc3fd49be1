"""A result rendered as text, JSON, a page and plots."""

import json
from pathlib import Path

from benchmarks import markdown, plots, publish, report
from benchmarks.figures import Goal
from benchmarks.suite import Failure

from tests.bench import results
from tests.bench.results import case, series

PNG = b"\x89PNG\r\n\x1a\n"
BOTH = [series(30, 20, 40), series(10, 10, 20, system="kafka", limit="client")]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_table_shows_the_spread_of_each_system_their_ratio_and_the_limits() -> None:
    lines = report.table(results.report(BOTH)).splitlines()

    assert cells(lines[0]) == ["figure", "headwater", "kafka", "unit", "ratio to kafka", "goal", "limited by"]
    assert "case: what it does" in lines
    assert cells(lines[-1]) == [
        *("rate", "30.0 (20.0 to 40.0)", "10.0 (10.0 to 20.0)", "MB/s", "2.00 (2.00 to 3.00)", "kafka: client")
    ]


def test_the_table_marks_missed_goals() -> None:
    lines = report.table(results.report([series(1234.5, goal=Goal(2000, is_ceiling=False))])).splitlines()

    assert cells(lines[-1]) == ["rate", "1,234", "MB/s", ">= 2,000", "MISSED"]


def test_the_goal_of_a_ratio_takes_precedence_over_an_absolute_one() -> None:
    found = [
        series(3, case="memory", name="idle", unit="MB", goal=Goal(1, is_ceiling=True)),
        series(30, case="memory", name="idle", unit="MB", system="kafka"),
    ]

    last = report.table(results.report(found, [case("memory")])).splitlines()[-1]

    assert cells(last)[-2:] == ["ratio <= 0.15", "met"]


def test_skipped_systems_and_failed_cases_are_reported_in_every_format() -> None:
    failure = Failure("case", "kafka", 2, "TimeoutError: no answer", "the trace")
    made = results.report(BOTH, left_out={"kafka-tuned": "no java"}, failures=[failure])

    for text in (report.table(made), markdown.page(made, {})):
        assert "kafka-tuned was left out: no java" in text
        assert "case FAILED with kafka in round 2: TimeoutError: no answer" in text
    document = report.document(made)
    assert document["left out"] == {"kafka-tuned": "no java"}
    assert "the trace" not in json.dumps(document), "it names paths of the machine"


def test_a_case_for_one_system_states_the_reason() -> None:
    made = results.report([series(1)], [case("case", "it measures the machine")])

    assert "only headwater: it measures the machine" in report.table(made)
    assert "Only headwater: it measures the machine." in markdown.page(made, {})


def test_the_document_holds_samples_resources_and_ratios() -> None:
    document = json.loads(json.dumps(report.document(results.report([series(30, 20, 40)]))))

    [saved] = document["cases"]
    [figure] = saved["figures"]
    assert figure["samples"] == [30, 20, 40]
    assert (figure["median"], figure["least"], figure["greatest"]) == (30, 20, 40)
    assert figure["resources"]["broker_system_s"] == 0.5
    assert figure["resources"]["broker_written_bytes"] == 1_000_000_000
    assert saved["ratios"] == []


def test_the_page_leaves_out_empty_columns() -> None:
    page = markdown.page(results.report([series(30, 20, 40)]), {"case": "plots/case.png"})

    assert "| figure | headwater | unit |\n|---|---|---|\n| rate | 30.0 (20.0 to 40.0) | MB/s |" in page
    assert "| rate | headwater | 0.25 s | 0.50 s | 30.0 MB | 1,000 MB | 1.50 s | 2.00 s |" in page
    assert "![case](plots/case.png)" in page
    assert "### headwater" in page
    assert "`--kafka" in page or "--kafka 127.0.0.1:0" in page


def test_a_result_is_published_as_json_a_page_and_the_plots_it_shows(tmp_path: Path) -> None:
    ours = series(30, 20, case="sizes", name="1 KiB: produce")
    # A case without a peer in the run has no plot.
    found = [ours, series(1, 2, case="floor")]

    page = publish.write(results.report(found, [case("sizes"), case("floor")]), tmp_path, "quick")

    assert page == tmp_path / "quick.md"
    assert json.loads((tmp_path / "quick.json").read_text())["scale"]["name"] == "smoke"
    assert not list((tmp_path / "plots").iterdir())


def test_plots_are_drawn_of_cases_that_two_systems_ran(tmp_path: Path) -> None:
    name = "1 KiB: produce"
    theirs = series(10, 20, case="sizes", name=name, system="kafka")
    made = results.report([series(30, 20, case="sizes", name=name), theirs, series(1, case="x")], [case("sizes")])

    drawn = plots.draw(made, tmp_path, "quick")

    assert drawn == {"sizes": "quick-sizes.png", "": "quick.png"}
    for file in drawn.values():
        assert (tmp_path / file).read_bytes().startswith(PNG)
