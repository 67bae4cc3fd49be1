"""A largest matching: as many pairs as possible of two lists, each element in one pair at most (Kuhn's algorithm)."""

from collections.abc import Collection

from headwater.registry.limits import ComparisonBudget


def matched(
    rows: int, columns: int, edges: Collection[tuple[int, int]], budget: ComparisonBudget
) -> list[tuple[int, int]]:
    of_row: list[list[int]] = [[] for _ in range(rows)]
    for row, column in edges:
        of_row[row].append(column)
    row_of: list[int | None] = [None] * columns
    for row in range(rows):
        _augment(row, of_row, row_of, budget)
    return sorted((row, column) for column, row in enumerate(row_of) if row is not None)


def _augment(start: int, of_row: list[list[int]], row_of: list[int | None], budget: ComparisonBudget) -> None:
    """Find a partner for one more row, moving others if need be; breadth first, so that no chain is too long."""
    came_from: dict[int, int] = {}
    left = [start]
    for row in left:
        for column in of_row[row]:
            budget.take()
            if column in came_from:
                continue
            came_from[column] = row
            holder = row_of[column]
            if holder is not None:
                left.append(holder)
                continue
            # Walk back: each row on the way takes the column that led on from it.
            current: int | None = column
            while current is not None:
                owner = came_from[current]
                previous = next((each for each, held in enumerate(row_of) if held == owner), None)
                row_of[current] = owner
                current = previous
            return
