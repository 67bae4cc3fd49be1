"""What is wrong with a schema, or with a payload that should follow one."""

from headwater.errors import ErrorCode, HeadwaterError


class InvalidSchema(HeadwaterError):
    """A document that is no schema of its format, or that exceeds a limit."""

    code = ErrorCode.INVALID_REQUEST


class InvalidPayload(HeadwaterError):
    """A key or a value that does not follow its schema; `path` is where."""

    code = ErrorCode.INVALID_RECORD

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"at {path or '/'}: {problem}")
        self.path = path
        self.problem = problem

    def inside(self, name: str | int) -> "InvalidPayload":
        """The same, seen from the value around it, in which it is the part of this name."""
        return InvalidPayload(f"/{name}{self.path}", self.problem)
