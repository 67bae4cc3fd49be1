"""`headwater schema check` and `diff`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headwater.cli.output import format_option, show
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
    from headwater.client.registry.schema_registry import Schema, SchemaRegistry
    from headwater.registry.parsed import ParsedSchema

# What the comparison adds for programs: the old schema as a whole, and settings.
_CONTEXT_OF_MESSAGES = "{oldSchemaVersion:", "{oldSchema:", "{validateFields:", "{compatibility:"


@click.command()
@click.argument("subject")
@click.argument("file", type=SCHEMA_FILE)
@schema_option
@click.option("--version", type=VersionType(), help="Compare with this version alone, at the subject's level.")
@format_option
@registry_option
def check(
    subject: str,
    file: Path,
    type: str | None,
    references: tuple[Reference, ...],
    version: Any,
    format: str,
    registry: str | None,
) -> int:
    """Check whether the schema in FILE may become the next version of SUBJECT. Nothing is registered.

    The exit code is 0 if it may and 1 if not, for the use in a build. A subject without versions takes any schema.

    \b
    Examples:
      headwater schema check orders-value order.avsc
    """
    with open_registry(registry) as opened:
        found = opened.incompatibilities(subject, read_schema(file, type, references), version)
        level = opened.config(subject).get("compatibilityLevel")
    problems = [each for each in found if not each.startswith(_CONTEXT_OF_MESSAGES)] or found
    if format != "table":
        show([{"subject": subject, "level": level, "compatible": not found, "problems": problems}], format)
    elif not found:
        click.echo(printable(f"the schema may become the next version of subject '{subject}' ({level})"))
    else:
        click.echo(printable(f"the schema may not become the next version of subject '{subject}' ({level}):"))
        for problem in problems:
            click.echo(f"  {printable(problem)}")
    return 1 if found else 0


class _Side(NamedTuple):
    name: str
    schema: "Schema"


@click.command()
@click.argument("subject")
@click.argument("old")
@click.argument("new", required=False, default="latest")
@schema_option
@format_option
@registry_option
def diff(
    subject: str,
    old: str,
    new: str,
    type: str | None,
    references: tuple[Reference, ...],
    format: str,
    registry: str | None,
) -> None:
    """Show how two schemas differ: OLD and NEW are versions of SUBJECT, or files. NEW is the latest version by default.

    Below the differences stands who reads whose records, by the rules of the registry: `new reads old` is what BACKWARD
    asks for, `old reads new` is FORWARD, both are FULL. --type and --reference are for files.

    \b
    Examples:
      headwater schema diff orders-value 1 2
      headwater schema diff orders-value latest order.avsc
    """
    from headwater.cli.rows.schema_rows import differences, laid_out
    from headwater.registry.compatibility import Level

    with open_registry(registry) as opened:
        sides = [_side(opened, subject, named, type, references) for named in (old, new)]
        parsed = [_parsed(opened, side) for side in sides]
    texts = [laid_out(side.schema.text, side.schema.type) for side in sides]
    lines = list(differences(*texts, *(side.name for side in sides)))
    backward = _problems(Level.BACKWARD, parsed[1], parsed[0])
    forward = _problems(Level.FORWARD, parsed[1], parsed[0])
    verdicts = (("new reads old", "BACKWARD", backward), ("old reads new", "FORWARD", forward))
    if format != "table":
        row: dict[str, object] = {"old": sides[0].name, "new": sides[1].name, "differences": lines}
        row |= {level.lower(): {"compatible": not found, "problems": found} for _, level, found in verdicts}
        show([row], format)
        return
    for line in lines or ["the texts are the same"]:
        click.echo(_colored(printable(line)))
    click.echo()
    for reads, level, found in verdicts:
        click.echo(f"{reads} ({level}): {'no' if found else 'yes'}")
        for problem in found:
            click.echo(f"  {printable(problem)}")


def _side(
    registry: "SchemaRegistry", subject: str, named: str, kind: str | None, references: tuple[Reference, ...]
) -> _Side:
    if named == "latest" or (named.isascii() and named.isdigit()):
        found = registry.version(subject, "latest" if named == "latest" else int(named))
        return _Side(f"{subject} version {found.version}", found.schema)
    file = Path(named)
    if named != "-" and not file.is_file():
        raise click.UsageError(f"{named!r} is neither a version (1, latest) nor a file")
    return _Side(named, read_schema(file, kind, references))


def _parsed(registry: "SchemaRegistry", side: _Side) -> "ParsedSchema":
    from headwater.registry import formats
    from headwater.registry.errors import InvalidSchema
    from headwater.registry.parsed import Document

    try:
        return formats.parse(Document(side.schema.type, side.schema.text, registry.resolve(side.schema)))
    except InvalidSchema as error:
        raise click.ClickException(f"{side.name}: {error}") from None


def _problems(level: Any, new: "ParsedSchema", old: "ParsedSchema") -> list[str]:
    from headwater.registry import compatibility
    from headwater.registry.parsed import Policy

    found = compatibility.check(level, Policy.STRICT, new, [compatibility.Version(0, old)])
    return [each for each in found if not each.startswith(_CONTEXT_OF_MESSAGES)]


def _colored(line: str) -> str:
    """For terminals; click takes the colors out elsewhere."""
    color = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=color) if color else line
