"""Makes untrusted text safe to print: one line, without control characters that a terminal would obey."""


def printable(text: str) -> str:
    """Return `text` with every non-printable character written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
