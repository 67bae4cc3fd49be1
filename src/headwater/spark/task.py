"""What Spark tells a task of the query that it belongs to."""

from pyspark import TaskContext

_QUERY_ID = "sql.streaming.queryId"


def query_id(context: TaskContext) -> str | None:
    """It is kept in the query's checkpoint: the same after a restart, another for another checkpoint."""
    return context.getLocalProperty(_QUERY_ID)
