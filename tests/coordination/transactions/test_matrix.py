"""Every command in every state of an id: the next state, or the refusal. The table is the specification."""

from collections.abc import Callable

import pytest

from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.coordination.transactions.events import TransactionForgotten, TransactionState, TransactionStored
from headwater.coordination.transactions.transitions import FOLLOWERS, PREPARED, markers_of
from headwater.errors import Refusal
from headwater.ids import ProducerId
from tests.coordination.transactions.driver import ORDERS, START, A, B, Driver, producer, stored
from tests.support.cases import in_one_test

# The id is held by producer 7 at epoch 5; `before` was its epoch 4, `old` is a zombie, `other` has another producer id.
NOW, BEFORE, OLD, OTHER = producer(7, 5), producer(7, 4), producer(7, 3), producer(8, 5)
REMEMBERED = {"previous_producer_id": ProducerId(7), "last_producer_epoch": 4}
ENDED_BY_2 = {"protocol_version": 2, **REMEMBERED}

# Empty came about by a client that said who it had been. What was ended by protocol 1 and by 2 differs.
STATES: dict[str, TransactionStored | None] = {
    "none": None,
    "Empty": stored(TransactionState.EMPTY, **REMEMBERED),
    "Open": stored(TransactionState.ONGOING),
    "PreC1": stored(TransactionState.PREPARE_COMMIT),
    "PreA1": stored(TransactionState.PREPARE_ABORT),
    "ComC1": stored(TransactionState.COMPLETE_COMMIT),
    "ComA1": stored(TransactionState.COMPLETE_ABORT),
    "PreC2": stored(TransactionState.PREPARE_COMMIT, **ENDED_BY_2),
    "PreA2": stored(TransactionState.PREPARE_ABORT, **ENDED_BY_2),
    "ComC2": stored(TransactionState.COMPLETE_COMMIT, **ENDED_BY_2),
    "ComA2": stored(TransactionState.COMPLETE_ABORT, **ENDED_BY_2),
    "Fence": stored(TransactionState.PREPARE_EPOCH_FENCE),
    "Dead": stored(TransactionState.DEAD),
}

# A cell is: a state and the epoch in it (0 is that of a new producer id), with `!` where the client is told
# CONCURRENT_TRANSACTIONS nevertheless; an error; `=` for a success that changes nothing; `gone` for an id forgotten.
SHORT = {
    "E": "EMPTY",
    "O": "ONGOING",
    "PC": "PREPARE_COMMIT",
    "PA": "PREPARE_ABORT",
    "CC": "COMPLETE_COMMIT",
    "CA": "COMPLETE_ABORT",
}
ERRORS = {
    "map": "INVALID_PRODUCER_ID_MAPPING",
    "fenced": "PRODUCER_FENCED",
    "conc": "CONCURRENT_TRANSACTIONS",
    "state": "INVALID_TXN_STATE",
    "abort": "TRANSACTION_ABORTABLE",
    "lost": "TRANSACTIONAL_ID_NOT_FOUND",
}

TABLE = """
                 none   Empty  Open   PreC1  PreA1  ComC1  ComA1  PreC2  PreA2  ComC2  ComA2  Fence  Dead
init             E0     E6     PA6!   conc   conc   E6     E6     conc   conc   E6     E6     conc   E0
init-now         E0     E6     PA6!   conc   conc   E6     E6     conc   conc   E6     E6     conc   E0
init-before      E0     E5     fenced conc   conc   fenced fenced conc   conc   E5     E5     conc   E0
init-old         E0     fenced fenced conc   conc   fenced fenced conc   conc   fenced fenced conc   E0
init-other       E0     fenced fenced conc   conc   fenced fenced conc   conc   fenced fenced conc   E0
add-now          map    O5     O5     conc   conc   O5     O5     conc   conc   O5     O5     conc   map
add-again        map    O5     =      conc   conc   O5     O5     conc   conc   O5     O5     conc   map
add-nothing      map    =      =      conc   conc   =      =      conc   conc   =      =      conc   map
add-before       map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
add-old          map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
add-other        map    map    map    map    map    map    map    map    map    map    map    map    map
verify-now       map    abort  =      conc   conc   abort  abort  conc   conc   abort  abort  conc   map
verify-before    map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
verify-other     map    map    map    map    map    map    map    map    map    map    map    map    map
commit1-now      map    state  PC5    conc   state  =      state  conc   state  =      state  state  map
abort1-now       map    state  PA5    state  conc   state  =      state  conc   state  =      conc   map
commit1-before   map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
abort1-before    map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
commit1-old      map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
abort1-other     map    map    map    map    map    map    map    map    map    map    map    map    map
commit2-now      map    state  PC6    conc   conc   state  state  conc   conc   state  state  conc   map
abort2-now       map    CA6    PA6    conc   conc   CA6    CA6    conc   conc   CA6    CA6    conc   map
commit2-before   map    fenced fenced fenced fenced fenced fenced conc   state  =      state  fenced map
abort2-before    map    fenced fenced fenced fenced fenced fenced state  conc   state  =      fenced map
commit2-old      map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
abort2-old       map    fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced fenced map
commit2-other    map    map    map    map    map    map    map    map    map    map    map    map    map
abort2-other     map    map    map    map    map    map    map    map    map    map    map    map    map
markers-written  =      =      =      CC5    CA5    =      =      CC5    CA5    =      =      CA5    =
markers-late     =      =      =      =      =      =      =      =      =      =      =      =      =
time-out         =      =      PA6    =      =      =      =      =      =      =      =      =      =
expire           =      gone   =      =      =      gone   gone   =      =      gone   gone   =      =
describe         lost   =      =      =      =      =      =      =      =      =      =      =      lost
"""

WHO: dict[str, ProducerIdentity | None] = {"now": NOW, "before": BEFORE, "old": OLD, "other": OTHER}


def end(driver: Driver, command: str, who: ProducerIdentity) -> object:
    return driver.end(who, is_commit=command.startswith("commit"), protocol_version=int(command[-1])).result


def markers(driver: Driver, transaction: TransactionStored | None, **others: object) -> None:
    # Those of a transaction that the id might have been in, where it is in none that ends.
    prepared = transaction or stored(TransactionState.PREPARE_ABORT)
    if prepared.state not in PREPARED:
        prepared = prepared._replace(state=TransactionState.PREPARE_ABORT)
    driver.written(markers_of(prepared)._replace(**others))


def time_out(driver: Driver) -> None:
    driver.loaded()
    driver.advance(100_000)
    driver.due()


def expire(driver: Driver) -> None:
    driver.advance(driver.settings.transactional_id_expiration_ms)
    driver.expire()


def run(driver: Driver, command: str, transaction: TransactionStored | None) -> object:
    """The command's result."""
    name, _, rest = command.partition("-")
    who = WHO.get(rest) or NOW
    match name:
        case "init":
            return driver.init(WHO.get(rest)).result
        case "add":
            return driver.add(who, *{"again": [A], "nothing": []}.get(rest, [A, B])).result
        case "verify":
            return driver.verify(who, A)[0]
        case "commit1" | "commit2" | "abort1" | "abort2":
            return end(driver, name, who)
        case "markers":
            return markers(driver, transaction, **({} if rest == "written" else {"producer_epoch": 4}))
        case "time":
            return time_out(driver)
        case "expire":
            return expire(driver)
        case _:
            return driver.machine.describe(ORDERS)


def cells() -> list[tuple[str, str, str]]:
    header, *rows = [line.split() for line in TABLE.strip().splitlines()]
    assert header == list(STATES), "the table has all states"
    assert all(len(row) == len(header) + 1 for row in rows)
    return [(row[0], name, cell) for row in rows for name, cell in zip(header, row[1:], strict=True)]


def outcome(driver: Driver, run_command: Callable[[], object], before: TransactionStored | None) -> str:
    """The outcome in the notation of a cell."""
    try:
        result = run_command()
    except Refusal as error:
        result = error
    refusal = result.code.name if isinstance(result, Refusal) else getattr(result, "name", "NONE")
    refused = [short for short, name in ERRORS.items() if name == refusal]
    after = driver.machine.transactions.get(ORDERS)
    if after == before:
        return refused[0] if refused else "="
    if after is None:
        return "gone"
    short = next(short for short, name in SHORT.items() if name == after.state.name)
    assert after.producer_id == (7 if after.producer_epoch else driver.new_producer_id)
    return f"{short}{after.producer_epoch}{'!' if refused == ['conc'] else ''}"


@in_one_test(["command", "state", "cell"], cells())
def test_every_command_in_every_state(command: str, state: str, cell: str) -> None:
    transaction = STATES[state]
    driver = Driver(*([] if transaction is None else [transaction]))
    before = driver.machine.transactions.get(ORDERS)

    assert outcome(driver, lambda: run(driver, command, transaction), before) == cell


def test_every_reached_state_is_in_the_table_of_allowed_transitions() -> None:
    found: dict[TransactionState, set[TransactionState]] = {state: set() for state in FOLLOWERS}
    for _, state, cell in cells():
        before = STATES[state]
        short = cell.rstrip("0123456789!")
        if before is not None and before.state in found and short in SHORT:
            found[before.state].add(TransactionState[SHORT[short]])

    assert {state: frozenset(followers) for state, followers in found.items()} == dict(FOLLOWERS)


def test_every_change_has_its_timestamp() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.advance(50)
    driver.add(NOW, A)

    assert driver.transaction.start_timestamp_ms == driver.transaction.update_timestamp_ms == START.wall_ms + 50


def test_tombstones_and_dead_ids_are_forgotten() -> None:
    driver = Driver(stored(TransactionState.ONGOING))
    driver.loaded()
    driver.machine.apply(TransactionForgotten(ORDERS))

    assert ORDERS not in driver.machine.transactions
    assert driver.machine.next_deadline_ms() is None
    driver.machine.apply(TransactionForgotten(ORDERS))


def test_an_event_of_something_else_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no event of a transaction"):
        Driver().machine.apply("something else")
