"""Builds Spark's dataflow graph from a project's definitions and executes one run of it."""

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
    """The definitions do not form a valid graph, so a retry would fail as well."""


def define(spark: "SparkSession", project: Project) -> str:
    """Build the graph and return its id. The definitions' output to stdout goes to the log."""
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
    with project.run_files.log.open("a") as log, redirect_stdout(log), _definition_errors(project.directory):
        register_definitions(project.spec, registry, spec, spark, graph_id)
    return graph_id


def start(
    spark: "SparkSession", project: Project, graph_id: str, *, dry: bool, full_refresh: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the events of one run, which ends when every flow has processed the records available at its start."""
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
        # The exception only says that resolution failed; the reason is in an earlier event.
        if unresolved is None:
            raise
        flow, _, reason = unresolved.removeprefix(_UNRESOLVED).partition("\nError: ")
        failure = explain(reason)
        raise DefinitionError(str(replace(failure, flow=short_name(flow.strip("'."))))) from error


@contextmanager
def _definition_errors(directory: Path) -> Generator[None]:
    """Context manager: exceptions of the definitions become a DefinitionError that names the project's line."""
    try:
        yield
    except PySparkException as error:
        raise DefinitionError(f"{_location(error, directory)}{explain(error)}") from error
    except Exception as error:
        raise DefinitionError(f"{_location(error, directory)}{type(error).__name__}: {error}") from error


def _location(error: Exception, directory: Path) -> str:
    """File and line of the innermost frame inside the project, as a prefix for the message."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(directory.resolve()):
            return f"{path.relative_to(directory.resolve())} line {frame.lineno}: "
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name} line {error.lineno}: "
    return ""
