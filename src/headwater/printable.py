"""Text from outside, made safe to print: one line, and nothing that a terminal would obey."""


def printable(text: str) -> str:
    """`text` with every character that is not plainly visible written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
