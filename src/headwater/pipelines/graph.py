"""A project's definitions become a dataflow graph in Spark, and one run of it is started."""

import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.pipelines.cli import LibrariesGlob, PipelineSpec, register_definitions
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

from headwater.errors import HeadwaterError
from headwater.pipelines.failures import explain, short_name
from headwater.pipelines.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNRESOLVED = "Failed to resolve flow: "


class DefinitionError(HeadwaterError):
    """The definitions cannot become a graph: running them again will not help."""


def define(spark: "SparkSession", project: Project) -> str:
    """Gives the id of the graph. What the definitions print goes to the log."""
    spec = PipelineSpec(
        name=project.name,
        storage=project.storage,
        catalog=project.catalog,
        database=project.database,
        configuration=project.configuration,
        libraries=[LibrariesGlob(include) for include in project.libraries],
    )
    graph_id = create_dataflow_graph(spark, project.catalog, project.database, project.configuration)
    registry = SparkConnectGraphElementRegistry(spark, graph_id)
    with project.place.log.open("a") as log, redirect_stdout(log), _errors_of(project.directory):
        register_definitions(project.spec, registry, spec, spark, graph_id)
    return graph_id


def start(
    spark: "SparkSession", project: Project, graph_id: str, *, dry: bool, full_refresh: Sequence[str] = ()
) -> Iterator[str]:
    """Runs the graph until every flow has processed what was there at its start, and gives the events of the run."""
    refresh_all = "*" in full_refresh
    results = start_run(
        spark,
        graph_id,
        full_refresh=() if refresh_all else full_refresh,
        full_refresh_all=refresh_all,
        refresh=(),
        dry=dry,
        storage=project.storage,
    )
    unresolved: str | None = None
    try:
        for result in results:
            event: Any = result.get("pipeline_event_result")
            if event is not None:
                if event.event.message.startswith(_UNRESOLVED):
                    unresolved = event.event.message
                yield event.event.message
    except AnalysisException as error:
        # Spark says only that something was wrong, and leaves it to the events before to say what.
        if unresolved is None:
            raise
        flow, _, reason = unresolved.removeprefix(_UNRESOLVED).partition("\nError: ")
        failure = explain(reason)
        raise DefinitionError(str(replace(failure, flow=short_name(flow.strip("'."))))) from error


@contextmanager
def _errors_of(directory: Path) -> Generator[None]:
    try:
        yield
    except PySparkException as error:
        raise DefinitionError(f"{_place(error, directory)}{explain(error)}") from error
    except Exception as error:
        raise DefinitionError(f"{_place(error, directory)}{type(error).__name__}: {error}") from error


def _place(error: Exception, directory: Path) -> str:
    """The line of the project where it happened."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(directory.resolve()):
            return f"{path.relative_to(directory.resolve())} line {frame.lineno}: "
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name} line {error.lineno}: "
    return ""
