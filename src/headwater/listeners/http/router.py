"""Finds the operation of a method and a path. Paths are matched segment by segment, exactly: no slash more or less."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from headwater.errors import HeadwaterError
from headwater.listeners.http.operation import Operation
from headwater.listeners.http.problem import render_problem
from headwater.listeners.http.response import Response

RenderError: TypeAlias = Callable[[HeadwaterError], Response]


class Area(NamedTuple):
    """Operations that belong together: they tell their errors in the same form."""

    name: str
    operations: Sequence[Operation]
    render_error: RenderError = render_problem


class _Node:
    __slots__ = ("any", "methods", "next", "render_error")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        # For a segment that is a parameter.
        self.any: _Node | None = None
        self.methods: dict[str, tuple[Operation, Sequence[str]]] = {}
        self.render_error: RenderError = render_problem


class Match(NamedTuple):
    """What is at a path: the operations by their methods, with the parameters of the path."""

    methods: Mapping[str, tuple[Operation, Sequence[str]]]
    values: Sequence[str]
    render_error: RenderError


class Router:
    def __init__(self, areas: Iterable[Area]) -> None:
        self._root = _Node()
        self.areas = tuple(areas)
        for area in self.areas:
            for each in area.operations:
                self._add(each, area.render_error)

    def _add(self, operation: Operation, render_error: RenderError) -> None:
        node = self._root
        names: list[str] = []
        for segment in operation.path[1:].split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                if node.any is None:
                    node.any = _Node()
                node = node.any
            else:
                node = node.next.setdefault(segment, _Node())
        assert operation.method not in node.methods, f"{operation.name} is declared once"
        node.methods[operation.method] = operation, names
        node.render_error = render_error

    def find(self, segments: Sequence[str]) -> Match | None:
        values: list[str] = []
        node = self._find(self._root, segments, 0, values)
        return None if node is None else Match(node.methods, values, node.render_error)

    def _find(self, node: _Node, segments: Sequence[str], index: int, values: list[str]) -> _Node | None:
        """A segment by its name goes before a parameter, which is tried if that leads nowhere."""
        if index == len(segments):
            return node if node.methods else None
        segment = segments[index]
        named = node.next.get(segment)
        if named is not None:
            found = self._find(named, segments, index + 1, values)
            if found is not None:
                return found
        if node.any is not None and segment:
            values.append(segment)
            found = self._find(node.any, segments, index + 1, values)
            if found is not None:
                return found
            values.pop()
        return None
