"""What a task can learn from Spark about the query that it belongs to."""

from pyspark import TaskContext

_QUERY_ID = "sql.streaming.queryId"


def query_id(context: TaskContext) -> str | None:
    """The streaming query's id, which its checkpoint stores: a restart keeps it, a new checkpoint has a new one."""
    return context.getLocalProperty(_QUERY_ID)
