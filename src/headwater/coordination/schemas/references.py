"""The schemas that a schema refers to, directly or not."""

from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.state import SchemaState
from headwater.coordination.schemas.terms import LATEST, Content, StoredSchema

REFERENCES_MAX = 1000
BYTES_MAX = 16 << 20


def resolve(state: SchemaState, subject: str, content: Content) -> dict[str, str]:
    """Their texts by the names of the references; those that others need come first."""
    resolved: dict[str, str] = {}
    # A reference is entered once those that it needs are: first it is opened, then, when it comes again, entered.
    left: list[tuple[str, StoredSchema, bool]] = []
    opened: set[str] = set()
    _push(state, subject, content, left)
    size = 0
    while left:
        name, stored, is_opened = left.pop()
        if is_opened:
            resolved[name] = stored.content.text
            size += len(stored.content.text)
            if len(resolved) > REFERENCES_MAX or size > BYTES_MAX:
                raise refusals.invalid_schema(
                    f"a schema refers to at most {REFERENCES_MAX} others, with {BYTES_MAX} bytes in all"
                )
        elif name not in opened:
            opened.add(name)
            left.append((name, stored, True))
            _push(state, stored.subject, stored.content, left)
    return resolved


def _push(state: SchemaState, subject: str, content: Content, left: list[tuple[str, StoredSchema, bool]]) -> None:
    if len(content.references) > REFERENCES_MAX:
        raise refusals.invalid_schema(f"a schema refers to at most {REFERENCES_MAX} others")
    for reference in reversed(content.references):
        target = subjects.inside_context_of(subject, reference.subject)
        # A deleted schema can still be referred to.
        stored = state.find(target, reference.version, with_deleted=True)
        if stored is None:
            version = "latest" if reference.version == LATEST else str(reference.version)
            raise refusals.invalid_schema(
                f"No schema reference found for subject '{reference.subject}' and version {version}"
            )
        left.append((reference.name, stored, False))
