"""Builds Python source: lines, indentation, fresh names, and the values that the code refers to."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class PythonSource:
    def __init__(self, **constants: object) -> None:
        self._lines: list[str] = []
        self._indent = ""
        self._name_count = 0
        self._constants: dict[str, Any] = dict(constants)

    def emit(self, line: str) -> None:
        self._lines.append(self._indent + line)

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        self.emit(header)
        outer = self._indent
        self._indent += "    "
        yield
        self._indent = outer

    def name(self, stem: str) -> str:
        """A name that the function does not use yet."""
        self._name_count += 1
        return f"{stem}_{self._name_count}"

    def constant(self, stem: str, value: object) -> str:
        """The name by which the code refers to `value`."""
        name = self.name(stem)
        self._constants[name] = value
        return name

    def literal(self, value: object) -> str:
        """The value as a Python literal, or the name of a constant for it."""
        is_literal = value is None or value == [] or isinstance(value, bool | int | float | str | bytes)
        return repr(value) if is_literal else self.constant("default", value)

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compiles the lines, which define `name`. They stem from our declarations, never from the network."""
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), self._constants)  # noqa: S102
        return self._constants[name]
