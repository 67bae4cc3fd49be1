"""Spark's events and errors become the status of flows that a person is shown."""

import json
from typing import Any

import pytest

from headwater.pipelines import ranges
from headwater.pipelines.failures import explain
from headwater.pipelines.flows import Flow, Flows
from headwater.pipelines.ranges import Range

FAILED = """[STREAM_FAILED] Query [id = 447a, runId = 3e4a] terminated with exception: [USER_RAISED_EXCEPTION] bad record SQLSTATE: P0001 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: spark_catalog.default.clean_orders [id = 447a, runId = 3e4a]
Current Committed Offsets: {PythonMicroBatchStream@1: {"orders":{"0":5,"1":7}}}
Current Available Offsets: {PythonMicroBatchStream@1: {"orders": {"0": 9, "1": 7, "2": 3}},FileStreamSource[file:/t]: {"logOffset":0}}

Current State: ACTIVE
"""  # noqa: E501

PYTHON = """[PYTHON_DATA_SOURCE_ERROR] Failed when it reads data: Traceback (most recent call last):
  File "/x/worker.py", line 7, in main
    raise DataLoss("x")
headwater.spark.reads.loss.DataLoss: orders-0: offset 5 is gone: the earliest is 9
 SQLSTATE: 38000"""


def progress(**told: Any) -> dict[str, Any]:
    return {"id": "id-1", "name": "spark_catalog.default.orders", "batchId": 3, "batchDuration": 500, **told}


def test_a_flow_goes_through_the_states_that_spark_reports() -> None:
    flows = Flows()

    flows.apply_event("Flow spark_catalog.default.orders is QUEUED.")
    flows.apply_event("Flow publish is QUEUED.")
    flows.apply_event("Flow spark_catalog.default.orders is RUNNING.")
    flows.apply_event("Run is COMPLETED.")

    assert [(flow.name, flow.state) for flow in flows] == [("orders", "running"), ("publish", "queued")]


def test_progress_adds_up_rows_and_shows_speed_and_lag() -> None:
    flows = Flows()
    source = {"endOffset": {"orders": {"0": 10}}, "latestOffset": json.dumps({"orders": {"0": 12, "1": 5}})}

    flows.apply_progress(progress(numInputRows=100, sources=[source], sink={"numOutputRows": 40}))
    flow = flows.apply_progress(progress(numInputRows=50, sources=[source], sink={"numOutputRows": 10}))

    assert flow.rows_in == 150
    assert flow.rows_in_per_second == 100
    assert (flow.rows_out, flow.rows_out_per_second) == (50, 20)
    assert flow.lag == 2 + 5
    assert (flow.batch_id, flow.batch_duration_ms) == (3, 500)


def test_figures_that_source_and_sink_do_not_report_stay_unknown() -> None:
    flow = Flows().apply_progress(
        progress(name=None, batchDuration=0, sources=[{"latestOffset": {"logOffset": 4}}], sink={"numOutputRows": -1})
    )

    assert flow == Flow("id-1", "running", batch_id=3, batch_duration_ms=0)


def test_a_failed_flow_keeps_its_error_until_it_completes() -> None:
    flows = Flows()

    flows.apply_end("spark_catalog.default.orders", "broken")
    flows.apply_event("Flow spark_catalog.default.orders has COMPLETED.")
    assert flows.get("orders").state == "failed", "Spark says so before it says what failed"
    flows.apply_event(f"Flow 'spark_catalog.default.orders' has FAILED.\nError: {FAILED}")
    flows.apply_event("Flow spark_catalog.default.orders is STARTING.")
    assert "bad record" in (flows.get("orders").error or "")

    flows.apply_event("Flow spark_catalog.default.orders has COMPLETED.")
    assert (flows.get("orders").state, flows.get("orders").error) == ("completed", None)


def test_a_failed_query_is_explained_by_flow_records_and_innermost_reason() -> None:
    failure = explain(FAILED)

    assert failure.flow == "clean_orders"
    assert failure.reason == "[USER_RAISED_EXCEPTION] bad record"
    assert failure.ranges == (Range("orders", 0, 5, 9), Range("orders", 2, None, 3))
    assert str(failure) == (
        "flow clean_orders: [USER_RAISED_EXCEPTION] bad record; "
        "in a batch of orders-0 offsets 5 to 8, orders-2 offsets up to 2"
    )


def test_a_python_traceback_is_reduced_to_its_last_line() -> None:
    assert explain(PYTHON).reason == "DataLoss: orders-0: offset 5 is gone: the earliest is 9"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError("Connection refused"), "Connection refused; start the broker"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] `x` is missing. SQLSTATE: 42P01;\n'Unresolved",
            "`x` is missing.; correct the name",
        ),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: it broke", "it broke"),
        ("\n\n", "no reason is given"),
    ],
)
def test_common_errors_come_with_advice(error: BaseException | str, told: str) -> None:
    assert told in str(explain(error))


@pytest.mark.parametrize(
    "told", [None, "", "{", "7", {"logOffset": 3}, {"orders": 3}, {"orders": {"a": 3}}, {"o": {"0": "x"}}]
)
def test_offsets_of_other_sources_are_ignored(told: object) -> None:
    assert ranges.parse(told) == {}
