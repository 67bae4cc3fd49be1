"""`headwater metrics`: what a running broker measures of itself."""

from typing import TYPE_CHECKING

import click

from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import FORMATS, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.ids import NodeId
    from headwater.metrics import Family, Sample

PROMETHEUS = "prometheus"
# A table without PREFIX shows longer families by their size only.
ROWS_MAX = 40


@click.command()
@click.argument("prefix", default="")
@click.option(
    "--format",
    type=click.Choice((*FORMATS, PROMETHEUS)),
    default="table",
    show_default=True,
    help="How to show the result; prometheus is the text format that scrapers read.",
)
@bootstrap_option
def metrics(prefix: str, format: str, bootstrap: str) -> None:
    """Print what a running broker measures of itself: requests, errors, latencies, flushes, sizes, groups and lags.

    PREFIX chooses the metrics whose names begin with it. Latencies are histograms: a bucket counts what took at most
    `le` seconds.

    \b
    Examples:
      headwater metrics
      headwater metrics headwater_group_lag
      headwater metrics headwater_request --format json
      headwater metrics --format prometheus > headwater.prom
    """
    from headwater.client.metrics import read_metrics
    from headwater.metrics import render

    with connect(bootstrap) as cluster:
        by_broker = read_metrics(cluster, prefix)
    if format == PROMETHEUS:
        click.echo(render(_merged(by_broker)), nl=False)
        return
    families = _merged(by_broker)
    if format == "table":
        _show_table(families, has_prefix=bool(prefix))
        return
    rows = [
        {
            "name": family.name + sample.suffix,
            "labels": dict(sample.labels),
            "value": _exact(sample.value),
            "kind": family.kind,
            "help": family.help,
        }
        for family in families
        for sample in family.samples
    ]
    show(rows, format)


def _show_table(families: "Sequence[Family]", *, has_prefix: bool) -> None:
    """For people: histograms by their count and mean, and long families by their size unless they were asked for."""
    rows: list[dict[str, object]] = []
    for family in families:
        samples = _means(family.samples) if family.kind == "histogram" else family.samples
        if len(samples) > ROWS_MAX and not has_prefix:
            rows.append({"name": family.name, "labels": f"{len(samples)} numbers; name it to see them", "value": None})
            continue
        rows.extend(_row(family, each) for each in samples)
    show(rows, "table", ("name", "labels", "value"))


def _row(family: "Family", sample: "Sample") -> dict[str, object]:
    return {"name": family.name + sample.suffix, "labels": _text(sample.labels), "value": _exact(sample.value)}


def _means(samples: "Sequence[Sample]") -> "list[Sample]":
    totals = {each.labels: each.value for each in samples if each.suffix == "_sum"}
    shown: list[Sample] = []
    for count in samples:
        if count.suffix == "_count":
            mean = round(totals[count.labels] / count.value, 9) if count.value else 0.0
            shown += (count, count._replace(value=mean, suffix="_mean"))
    return shown


def _exact(value: float) -> float:
    return int(value) if value == int(value) else value


def _merged(by_broker: "Mapping[NodeId, Sequence[Family]]") -> "list[Family]":
    """Families of several brokers as one, with a label that tells the broker."""
    if len(by_broker) == 1:
        (families,) = by_broker.values()
        return list(families)
    merged: dict[str, Family] = {}
    for node_id, families in by_broker.items():
        for family in families:
            label = ("broker", str(node_id))
            samples = [sample._replace(labels=(label, *sample.labels)) for sample in family.samples]
            merged.setdefault(family.name, family._replace(samples=[])).samples.extend(samples)
    return list(merged.values())


def _text(labels: "Sequence[tuple[str, str]]") -> str:
    return ",".join(f"{name}={value}" for name, value in labels)
