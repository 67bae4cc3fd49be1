"""The checker of group histories finds every kind of violation: each is planted here once."""

import json

from tests.support.groups.history import (
    Assigned,
    Committed,
    Ended,
    Event,
    Lost,
    Processed,
    Refused,
    Revoked,
    complaints,
    read_event,
)

ENDS = {0: 10, 1: 5}


def a_good_history() -> dict[str, list[Event]]:
    """Ann has both partitions, hands one to Bob, sleeps, and learns too late that Bob has everything."""
    return {
        "ann": [
            Assigned(1, 1, [0, 1]),
            Processed(2, 1, [(0, 0, 3), (1, 0, 1)]),
            Committed(3, 1, [(0, 4), (1, 2)]),
            Revoked(4, 1, [1]),
            Processed(6, 2, [(0, 4, 5)]),
            Committed(7, 2, [(0, 6)]),
            Processed(11, 2, [(0, 6, 6)]),
            Refused(12, 2, "UNKNOWN_MEMBER_ID"),
            Lost(13, 2, [0]),
            Ended(20),
        ],
        "bob": [
            Assigned(5, 2, [1]),
            Processed(6, 2, [(1, 2, 4)]),
            Committed(7, 2, [(1, 5)]),
            Assigned(10, 3, [0]),
            Processed(11, 3, [(0, 6, 9)]),
            Committed(12, 3, [(0, 10)]),
        ],
    }


def test_a_correct_history_has_no_complaints() -> None:
    assert complaints(a_good_history(), ENDS) == []


def test_an_unprocessed_record_is_found() -> None:
    histories = a_good_history()
    histories["bob"][1] = Processed(6, 2, [(1, 2, 2), (1, 4, 4)])
    assert complaints(histories, ENDS) == ["nobody processed the offsets 3 to 3 of partition 1"]


def test_an_unprocessed_end_of_a_partition_is_found() -> None:
    assert complaints(a_good_history(), {**ENDS, 1: 7, 2: 1}) == [
        "nobody processed the offsets 5 to 6 of partition 1",
        "nobody processed the offsets 0 to 0 of partition 2",
    ]


def test_a_record_processed_twice_in_a_generation_is_found() -> None:
    histories = a_good_history()
    histories["ann"].insert(2, Processed(2, 1, [(0, 3, 3)]))
    assert complaints(histories, ENDS) == ["ann and ann both processed offset 3 of partition 0 in 1"]


def test_two_members_that_process_the_same_record_in_a_generation_are_found() -> None:
    histories = a_good_history()
    histories["bob"][4] = Processed(11, 2, [(0, 6, 9)])
    assert complaints(histories, ENDS) == [
        "ann and bob both processed offset 6 of partition 0 in 2",
        "partition 0 belonged to ann and bob in generation 2",
    ]


def test_two_owners_in_a_generation_are_found_even_when_they_process_nothing() -> None:
    histories = a_good_history()
    histories["bob"][3] = Assigned(10, 2, [0])
    assert complaints(histories, ENDS) == [
        "partition 0 belonged to ann and bob in generation 2",
    ]


def test_a_partition_assigned_before_its_owner_gave_it_up_is_found() -> None:
    histories = a_good_history()
    histories["bob"][0] = Assigned(3, 2, [1])
    histories["ann"][2], histories["ann"][3] = Revoked(3, 1, [1]), Committed(3, 1, [(0, 4), (1, 2)])
    assert complaints(histories, ENDS) == []
    histories["ann"][2] = Revoked(4, 1, [1])
    assert complaints(histories, ENDS) == ["bob got partition 1 while ann had it"]


def test_a_member_that_never_learns_that_it_lost_a_partition_is_found() -> None:
    histories = a_good_history()
    del histories["ann"][8:]
    assert complaints(histories, ENDS) == ["bob got partition 0 while ann had it"]


def test_a_member_that_ended_owns_nothing() -> None:
    histories = a_good_history()
    histories["ann"][6:] = [Ended(9)]
    assert complaints(histories, ENDS) == []


def test_a_commit_that_moves_backwards_is_found() -> None:
    histories = a_good_history()
    histories["bob"].append(Committed(13, 3, [(0, 9)]))
    assert complaints(histories, ENDS) == ["bob committed 9 of partition 0 after 10"]


def test_a_forgotten_commit_is_found() -> None:
    histories = a_good_history()
    histories["bob"][1] = Processed(6, 2, [(1, 1, 4)])
    assert complaints(histories, ENDS) == ["bob began at 1 of partition 1, although 2 was committed"]


def test_written_events_are_read_back() -> None:
    for event in (event for history in a_good_history().values() for event in history):
        written = json.dumps([type(event).__name__.lower(), *event])
        read = read_event(written)
        assert type(read) is type(event)
        assert json.dumps(read) == json.dumps(event)
