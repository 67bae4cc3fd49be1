"""Regular expressions of clients, matched by RE2, whose time is linear in the length of the text and in the size of the
expression. The size is bounded here, so that no expression can stall the broker."""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from headwater.errors import ErrorCode, Refusal

LENGTH_MAX = 1024
# Per compiled expression.
MEMORY_BYTES_MAX = 1 << 20
# Matching time grows with the instructions that an expression compiles to, and repetitions make many instructions of
# few characters.
INSTRUCTIONS_MIN = 300
INSTRUCTIONS_PER_CHARACTER = 2
MATCHERS_KEPT = 128


@lru_cache(maxsize=MATCHERS_KEPT)
def whole_matcher(regex: str) -> Callable[[str], object]:
    """A function that returns something other than None if the whole text matches."""
    if len(regex) > LENGTH_MAX:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression has {len(regex)} characters, the limit is {LENGTH_MAX}",
        )
    # Imported on first use: few brokers need it, and none at start.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MEMORY_BYTES_MAX
    try:
        compiled = re2.compile(regex, options)
    except (cast("type[Exception]", re2.error), UnicodeError) as error:
        text = b"".join(part for part in error.args if isinstance(part, bytes)).decode("utf-8", "replace")
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"'{regex}' is not a valid regular expression: {text}"
        ) from error
    instructions_max = INSTRUCTIONS_MIN + INSTRUCTIONS_PER_CHARACTER * len(regex)
    if compiled.programsize > instructions_max:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"'{regex}' is too large an expression ({compiled.programsize} instructions, the limit is "
            f"{instructions_max}): repeat less",
        )
    return cast("Callable[[str], object]", compiled.fullmatch)
