"""Regular expressions of clients, matched by RE2: its time grows with the length of the text and the size of the
expression, and no faster. The size is bounded here, so that an expression cannot stall the broker."""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from headwater.errors import ErrorCode, Refusal

LENGTH_MAX = 1024
# Of one compiled expression.
MEMORY_BYTES_MAX = 1 << 20
# An expression costs time with every instruction that it is compiled into: repetitions make many of few characters.
INSTRUCTIONS_MIN = 300
INSTRUCTIONS_PER_CHARACTER = 2
MATCHERS_KEPT = 128


@lru_cache(maxsize=MATCHERS_KEPT)
def whole_matcher(regex: str) -> Callable[[str], object]:
    """Gives something other than None for a text that matches as a whole."""
    if len(regex) > LENGTH_MAX:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression has {len(regex)} characters, the limit is {LENGTH_MAX}",
        )
    # Few brokers ever need it, and none to start.
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
