"""`headwater schema register`, `list`, `show` and `delete`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.options import INT32_MAX
from headwater.cli.output import format_option
from headwater.cli.output import show as show_rows
from headwater.cli.registry_options import (
    SCHEMA_FILE,
    VersionType,
    open_registry,
    read_schema,
    registry_option,
    schema_option,
)
from headwater.printable import printable
from headwater.registry.parsed import Reference

if TYPE_CHECKING:
    from headwater.client.registry.schema_registry import RegisteredSchema


@click.command()
@click.argument("subject")
@click.argument("file", type=SCHEMA_FILE)
@schema_option
@click.option("--normalize", is_flag=True, help="Differences without a meaning do not make another version.")
@click.option("--force", is_flag=True, help="Do not check compatibility. Registries may ask for a further right.")
@format_option
@registry_option
def register(
    subject: str,
    file: Path,
    type: str | None,
    references: tuple[Reference, ...],
    normalize: bool,
    force: bool,
    format: str,
    registry: str | None,
) -> None:
    """Register the schema in FILE (- is standard input) as the next version of SUBJECT, and print its id.

    A schema that is a version already stays that version. One that would break readers or writers is refused, with what
    is wrong; `headwater schema check` asks without registering.

    \b
    Examples:
      headwater schema register orders-value order.avsc
      headwater schema register orders-value order.proto --reference common.proto=common:1
    """
    with open_registry(registry) as opened:
        found = opened.register(subject, read_schema(file, type, references), normalize=normalize, is_forced=force)
    if format == "table":
        click.echo(printable(f"subject '{subject}' has it as version {found.version}, with id {found.id}"))
    else:
        show_rows([{"subject": subject, "version": found.version, "id": found.id}], format)


@click.command("list")
@click.argument("subject", required=False)
@click.option("--prefix", help="Only subjects whose names begin so; :.CONTEXT: is a context, :*: is all of them.")
@click.option("--deleted", is_flag=True, help="Also versions that were deleted and not removed for good.")
@format_option
@registry_option
def list_versions(subject: str | None, prefix: str | None, deleted: bool, format: str, registry: str | None) -> None:
    """List subjects with their latest versions, or all versions of SUBJECT.

    \b
    Examples:
      headwater schema list
      headwater schema list orders-value --deleted
    """
    if subject is not None and prefix is not None:
        raise click.UsageError("SUBJECT and --prefix exclude each other")
    with open_registry(registry) as opened:
        if subject is None:
            found = opened.schemas(prefix, latest_only=True, with_deleted=deleted)
        else:
            numbers = opened.versions(subject, with_deleted=deleted)
            found = [opened.version(subject, number, with_deleted=deleted) for number in numbers]
    rows = [_row(each) for each in found]
    show_rows(rows, format, ("subject", "version", "id", "type", "references", *(("deleted",) if deleted else ())))


@click.command()
@click.argument("subject", required=False)
@click.option("--version", type=VersionType(), default="latest", show_default=True)
@click.option("--id", "schema_id", type=click.IntRange(0, INT32_MAX), help="The schema with this id.")
@click.option("--raw", is_flag=True, help="The text as it is stored, not laid out.")
@click.option("--deleted", is_flag=True, help="Also a version that was deleted.")
@format_option
@registry_option
def show(
    subject: str | None,
    version: Any,
    schema_id: int | None,
    raw: bool,
    deleted: bool,
    format: str,
    registry: str | None,
) -> None:
    """Show the schema of SUBJECT, or the one with --id. JSON and YAML have its number, references and metadata, too.

    \b
    Examples:
      headwater schema show orders-value
      headwater schema show --id 7 --format json
    """
    if (subject is None) == (schema_id is None):
        raise click.UsageError("either SUBJECT or --id is needed")
    from headwater.cli.rows.schema_rows import laid_out

    with open_registry(registry) as opened:
        if subject is not None:
            found = opened.version(subject, version, with_deleted=deleted)
        else:
            found = opened.schema(schema_id or 0)
    text = found.schema.text if raw else laid_out(found.schema.text, found.schema.type)
    if format == "table":
        # Line by line, because what is not printable is escaped.
        for line in text.splitlines():
            click.echo(printable(line.replace("\t", "    ")))
        return
    row = {**_row(found), "schema": text}
    if found.metadata:
        row["metadata"] = found.metadata
    if found.rule_set:
        row["rule_set"] = found.rule_set
    show_rows([row], format)


@click.command()
@click.argument("subject")
@click.option("--version", type=VersionType(), help="Only this version; by default all.")
@click.option("--permanent", is_flag=True, help="Remove for good what was deleted before.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@registry_option
def delete(subject: str, version: Any, permanent: bool, yes: bool, format: str, registry: str | None) -> None:
    """Delete SUBJECT or one version of it. Its schemas can still be read by their ids, until --permanent removes them.

    \b
    Examples:
      headwater schema delete orders-value --version 2
      headwater schema delete orders-value --permanent --yes
    """
    what = f"subject {subject!r}" if version is None else f"version {version} of subject {subject!r}"
    if not yes and sys.stdin.isatty():
        lost = ", so that records with its ids cannot be read any more" if permanent else ""
        click.confirm(f"Delete {what}{lost}?", abort=True)
    with open_registry(registry) as opened:
        if version is None:
            deleted = opened.delete_subject(subject, is_permanent=permanent)
        else:
            deleted = [opened.delete_version(subject, version, is_permanent=permanent)]
    done = "removed" if permanent else "deleted"
    show_rows([{"subject": subject, "version": number, done: True} for number in deleted], format)


def _row(found: "RegisteredSchema") -> dict[str, object]:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "type": found.schema.type.value.lower(),
        "references": [f"{each.name}={each.subject}:{each.version}" for each in found.schema.references],
        "deleted": found.is_deleted,
    }
