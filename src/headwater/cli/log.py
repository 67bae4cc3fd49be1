"""`headwater log`: looks into the files of a data directory, without a broker."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.output import format_option
from headwater.cli.subcommands.log_verify import verify

if TYPE_CHECKING:
    from headwater.protocol.batches.batch import BatchHeader
    from headwater.storage.disk import Disk
    from headwater.storage.inspection.segment_report import BatchReport


@click.group()
def log() -> None:
    """Look into the files of a data directory."""


log.add_command(verify)


@log.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--records/--no-records", default=True, show_default=True, help="Show the records of each batch.")
@format_option
def dump(file: Path, records: bool, format: str) -> int:
    """Show the batches and records of the segment FILE (a .log file), and what is wrong with them.

    Its .index, .timeindex and .txnindex are compared with it if they lie beside it; the last tells which transactions
    were aborted. Nothing is changed, and a broker may be using the file. json prints one object a line, yaml one
    document for each batch, one for the aborted transactions if there are any, and one for the indexes if something is
    wrong with those. Bytes that are no UTF-8 are escaped, or base64 in a field `..._base64`. The exit code
    is 1 if anything is wrong.
    """
    from headwater.cli.pipe import until_pipe_is_closed

    problem_count = 0
    with until_pipe_is_closed():
        problem_count = _dump(file, format, with_records=records)
    return 1 if problem_count else 0


def _dump(file: Path, format: str, *, with_records: bool) -> int:
    """Show the segment, and return how many problems were found."""
    from headwater.cli.rows.record_rows import row_writer
    from headwater.storage.disk import Disk
    from headwater.storage.inspection.segment_report import inspect_aborted, inspect_lanes, inspect_segment

    disk = Disk()
    write_row = None if format == "table" else row_writer(format, sys.stdout.buffer)
    batch_count = record_count = problem_count = 0
    for report in inspect_segment(disk, file, with_records=with_records):
        if report.header is not None:
            batch_count += 1
            record_count += report.header.record_count
        problem_count += len(report.problems)
        if write_row is None:
            _show_batch(report)
        else:
            write_row(_batch_row(report, with_records=with_records))
    aborted, transaction_problems = inspect_aborted(disk, file)
    index_problems = [*_index_problems(disk, file), *transaction_problems, *inspect_lanes(disk, file)]
    problem_count += len(index_problems)
    if write_row is None:
        for transaction in aborted:
            click.echo(
                f"aborted: producer {transaction.producer_id}, "
                f"offsets {transaction.first_offset} to {transaction.last_offset}"
            )
        _show_problems(index_problems)
        click.echo(f"{batch_count} batches, {record_count} records, {problem_count or 'no'} problems")
    else:
        if aborted:
            write_row({"aborted_transactions": [transaction._asdict() for transaction in aborted]})
        if index_problems:
            write_row({"index_problems": index_problems})
    sys.stdout.buffer.flush()
    return problem_count


def _index_problems(disk: "Disk", file: Path) -> Sequence[str]:
    from headwater.storage import names
    from headwater.storage.inspection.segment_report import inspect_indexes

    # A segment that is still being written may have no index files yet.
    if not all(file.with_suffix(suffix).exists() for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)):
        return []
    return list(inspect_indexes(disk, file))


def _show_batch(report: "BatchReport") -> None:
    from headwater.cli.options import time_text
    from headwater.cli.rows.record_rows import headers_cell, text_cell

    header = report.header
    if header is None:
        click.echo(f"at {report.position}: {report.size} bytes that are no batch")
    else:
        what = "control" if header.is_control else "transactional" if header.is_transactional else ""
        parts = [
            f"offsets {header.base_offset} to {header.last_offset}",
            f"{header.record_count} records",
            f"{report.size} bytes",
            f"compression {_codec_name(header)}",
            f"epoch {header.leader_epoch}",
            time_text(header.max_timestamp) or "no timestamp",
            *([f"producer {header.producer_id}/{header.producer_epoch}"] if header.has_producer_id else []),
            *([f"sequence {header.base_sequence} to {header.last_sequence}"] if header.base_sequence >= 0 else []),
            *([what] if what else []),
        ]
        click.echo(f"at {report.position}: {', '.join(parts)}")
    for record in report.records:
        click.echo(
            f"  {record.offset:<10}  {time_text(record.timestamp) or '-':<24}  {text_cell(record.key)}  "
            f"{headers_cell(record.headers)}  {text_cell(record.value)}"
        )
    _show_problems(report.problems)


def _show_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        click.echo(f"  problem: {problem}")


def _batch_row(report: "BatchReport", *, with_records: bool) -> dict[str, object]:
    from headwater.cli.options import time_text
    from headwater.cli.rows.record_rows import record_row

    row: dict[str, object] = {"position": report.position, "bytes": report.size, "problems": list(report.problems)}
    header = report.header
    if header is None:
        return row
    row |= {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "compression": _codec_name(header),
        "leader_epoch": header.leader_epoch,
        "max_timestamp": time_text(header.max_timestamp),
        "max_timestamp_ms": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }
    if with_records:
        row["records"] = [
            record_row(record.offset, record.timestamp, record.key, record.value, record.headers)
            for record in report.records
        ]
    return row


def _codec_name(header: "BatchHeader") -> str:
    from headwater.protocol.batches.compression import Codec

    try:
        return Codec(header.codec).name.lower()
    except ValueError:
        return f"unknown ({header.codec})"
