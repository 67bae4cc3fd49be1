"""Regular expressions of clients, matched by RE2, whose time is linear: a pattern cannot stall the broker."""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from headwater.errors import ErrorCode, KafkaError

LENGTH_MAX = 1024
# Of one compiled expression, so that nested repetitions do not take all there is.
MEMORY_BYTES_MAX = 1 << 20
MATCHERS_KEPT = 128


@lru_cache(maxsize=MATCHERS_KEPT)
def whole_matcher(regex: str) -> Callable[[str], object]:
    """Gives something other than None for a text that matches as a whole."""
    if len(regex) > LENGTH_MAX:
        raise KafkaError(
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
        return cast("Callable[[str], object]", re2.compile(regex, options).fullmatch)
    except (cast("type[Exception]", re2.error), UnicodeError) as error:
        text = b"".join(part for part in error.args if isinstance(part, bytes)).decode("utf-8", "replace")
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"'{regex}' is not a valid regular expression: {text}"
        ) from error
