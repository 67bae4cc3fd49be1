"""Many small cases in one test."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
# Failures of a case. pytest's own, raised by `pytest.raises` if nothing was raised, is not an Exception.
_FAILURES = (Exception, pytest.fail.Exception)
_SHOWN_MAX = 20


def in_one_test(names: Sequence[str], cases: Iterable[Sequence[Any]]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but one test runs all cases: to set up and report a test takes longer than most
    cases do. Cases that fail do not keep the others from running; all are reported together, each with its name.
    """
    chosen = [tuple(case) for case in cases]
    assert chosen, "there are no cases"

    def combine(test: Test) -> Test:
        def run_all(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for case in chosen:
                try:
                    test(**dict(zip(names, case, strict=True)), **fixtures)
                except _FAILURES as failure:
                    failure.add_note(f"in the case {_name(case)}")
                    failures.append(failure)
            if failures:
                rest = f"; the first {_SHOWN_MAX} of them" if len(failures) > _SHOWN_MAX else ""
                told = f"{len(failures)} of {len(chosen)} cases failed{rest}"
                raise BaseExceptionGroup(told, failures[:_SHOWN_MAX])

        # Not `functools.wraps`: pytest would look for fixtures with the names of the cases' values.
        run_all.__name__, run_all.__qualname__ = test.__name__, test.__qualname__
        run_all.__module__, run_all.__doc__ = test.__module__, test.__doc__
        signature = inspect.signature(test)
        assert set(names) <= signature.parameters.keys(), f"{test.__name__} does not take {names}"
        fixtures = [each for each in signature.parameters.values() if each.name not in names]
        run_all.__signature__ = signature.replace(parameters=fixtures)  # pyright: ignore[reportFunctionMemberAccess]
        return run_all

    return combine


def _name(case: Sequence[Any]) -> str:
    """As pytest's ids, or nearly."""
    return "-".join(str(getattr(value, "__name__", None) or getattr(value, "name", None) or value) for value in case)
