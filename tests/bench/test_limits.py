"""Which side a report names as the limit of a figure: client, broker, shared cores or other processes."""

from dataclasses import replace

from benchmarks.limits import Shares, limited_by

REST = Shares(client=0.3, client_busiest_thread=0.2, broker=0.3, broker_busiest_thread=0.3, machine=0.7, cores=2)


def test_no_limit_is_named_while_all_sides_have_time_to_spare() -> None:
    assert limited_by(REST) == ""


def test_a_client_with_a_thread_that_never_rests_is_the_limit_of_an_idle_broker() -> None:
    assert limited_by(replace(REST, client=1.1, client_busiest_thread=0.9, machine=1.5)) == "client"


def test_a_client_that_uses_all_cores_is_the_limit_although_each_thread_rests() -> None:
    assert limited_by(replace(REST, client=1.75, client_busiest_thread=0.6, machine=2.0)) == "client"


def test_shared_cores_are_the_limit_when_the_broker_is_busy_too() -> None:
    busy = replace(REST, client=1.0, client_busiest_thread=0.95, broker=0.95, broker_busiest_thread=0.9, machine=1.95)

    assert limited_by(busy) == "cores"


def test_a_broker_with_a_thread_that_never_rests_is_the_limit() -> None:
    assert limited_by(replace(REST, broker=0.95, broker_busiest_thread=0.95, machine=1.4)) == "broker"


def test_other_processes_that_take_the_cores_are_the_limit() -> None:
    assert limited_by(replace(REST, machine=2.0)) == "others"


def test_the_shares_include_the_cores_used_by_other_processes() -> None:
    assert str(replace(REST, machine=1.0)) == "in percent of one core: client 30%, broker 30%, others 40%"
