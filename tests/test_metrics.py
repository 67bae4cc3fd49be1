"""Counters, histograms and gauges, and the text format that scrapers read."""

from collections.abc import Iterator

import pytest

from headwater import metrics as metrics_module
from headwater.metrics import Metrics, Sample, render


def test_a_histogram_counts_by_powers_of_two_and_renders_them_in_the_unit_of_scrapers() -> None:
    metrics = Metrics()
    took_us = metrics.histogram("took_seconds", "How long.", 1e-6)
    for value in (0, 3, 4, 1000):
        took_us.observe(value)
    (family,) = metrics.collect("took")
    buckets = {dict(each.labels)["le"]: each.value for each in family.samples if each.suffix == "_bucket"}
    assert buckets["1e-06"] == 1, "0 took less than a microsecond"
    assert buckets["4e-06"] == 2
    assert buckets["8e-06"] == 3
    assert buckets["0.001024"] == buckets["+Inf"] == 4
    assert list(buckets.values()) == sorted(buckets.values())
    assert [each.value for each in family.samples if each.suffix != "_bucket"] == [pytest.approx(0.001007), 4]


def test_a_value_beyond_all_buckets_is_counted() -> None:
    metrics = Metrics()
    huge = metrics.histogram("huge", "Values of any size.", 1)
    huge.observe(1 << 200)
    assert metrics.collect("huge")[0].samples[-1] == Sample((), 1, "_count")


def test_the_rendered_text_is_parsed_by_a_scraper() -> None:
    metrics = Metrics()
    metrics.counter("seen_total", "What was\nseen, with a \\.").value = 3
    metrics.declare("size", "gauge", "By name.", lambda: [Sample((("name", 'a"b\\c\nd'),), 1.5)])
    lines = render(metrics.collect("s")).splitlines()
    assert lines == [
        "# HELP seen_total What was\\nseen, with a \\\\.",
        "# TYPE seen_total counter",
        "seen_total 3",
        "# HELP size By name.",
        "# TYPE size gauge",
        'size{name="a\\"b\\\\c\\nd"} 1.5',
    ]
    assert render([]) == ""


def test_a_family_with_too_many_samples_is_truncated_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "SAMPLES_MAX", 2)
    metrics = Metrics()

    def endless() -> Iterator[Sample]:
        while True:
            yield Sample((), 1)

    metrics.declare("endless", "gauge", "Without end.", endless)
    metrics.gauge("one", "One.", lambda: 1)
    families = {family.name: family.samples for family in metrics.collect()}
    assert len(families["endless"]) == 2
    assert families["headwater_metrics_truncated"] == [Sample((), 1)]
    assert families["one"] == [Sample((), 1)]
