"""The project that `headwater pipeline init` writes: orders from a topic, a table of clean ones, revenue to a topic."""

import re
from pathlib import Path

from headwater.pipelines.project import SPEC_NAMES, ProjectError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

_SPEC = """\
name: {name}
# Checkpoints: how far each flow has come. On a cluster, a place that all its machines reach (s3a://, hdfs://).
storage: .headwater/storage
libraries:
  - glob:
      include: transformations/**
configuration:
  # Spark's own settings, as text.
  spark.sql.shuffle.partitions: "2"
"""

_ORDERS = '''\
"""The topic `orders`, and the table of those orders that make sense."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

from headwater.spark import client_options

spark = SparkSession.active()
ORDER = "order_id LONG, product STRING, quantity INT, price DOUBLE, ordered_at TIMESTAMP"


@dp.temporary_view
def orders() -> DataFrame:
    """A view, so that SQL can read the topic too: `FROM STREAM orders`."""
    records = (
        spark.readStream.format("headwater")
        # The broker of `headwater pipeline run --bootstrap`, and the security of `--client-config`.
        .options(**client_options())
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(from_json(col("value").cast("string"), ORDER).alias("order")).select("order.*")


@dp.table
def clean_orders() -> DataFrame:
    return spark.readStream.table("orders").where("order_id IS NOT NULL AND quantity > 0 AND price >= 0")
'''

_REVENUE = """\
-- Revenue per minute and product. A minute is final ten seconds after its end, by the clock of the orders: an order
-- that comes later than that is left out.
CREATE STREAMING TABLE revenue AS
SELECT
  window.start AS minute,
  product,
  count(*) AS orders,
  round(sum(quantity * price), 2) AS revenue
FROM STREAM clean_orders WATERMARK ordered_at DELAY OF INTERVAL 10 SECONDS
GROUP BY window(ordered_at, '1 minute'), product;
"""

_PUBLISH = '''\
"""The topic `revenue`: every row of the table `revenue` as JSON, exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct, to_json

from headwater.spark import client_options

spark = SparkSession.active()

dp.create_sink("revenue_topic", "headwater", {**client_options(), "topic": "revenue"})


@dp.append_flow(target="revenue_topic")
def publish_revenue() -> DataFrame:
    row = struct("minute", "product", "orders", "revenue")
    return spark.readStream.table("revenue").select(col("product").alias("key"), to_json(row).alias("value"))
'''

_SAMPLE = '''\
"""Prints sample orders, one JSON object a line: python sample_orders.py 1000 | headwater produce orders"""

import json
import random
import sys
from datetime import UTC, datetime, timedelta

PRICES = {"tea": 3.5, "coffee": 4.2, "cake": 5.0, "juice": 3.9}

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
# The last of them is an order of this very second.
moment = datetime.now(UTC) - timedelta(seconds=count)
for order_id in range(1, count + 1):
    product = random.choice(list(PRICES))
    # A few make no sense, so that there is something to clean.
    quantity = random.choice([1, 1, 1, 2, 3, -1])
    moment += timedelta(seconds=1)
    order = {"order_id": order_id, "product": product, "quantity": quantity, "price": PRICES[product]}
    print(json.dumps({**order, "ordered_at": moment.isoformat()}))
'''

_README = """\
# {name}

Orders come from the topic `orders`; the sensible ones are kept in the table `clean_orders`; revenue per minute and
product goes to the table `revenue` and, exactly once, to the topic `revenue`.

| file | what it defines |
|---|---|
| `transformations/orders.py` | the topic `orders` as a view, and the table `clean_orders` |
| `transformations/revenue.sql` | the table `revenue` |
| `transformations/publish.py` | the topic `revenue` |
| `spark-pipeline.yml` | name, storage and Spark's settings |
| `sample_orders.py` | orders to try it with |

With a broker running (`headwater serve`):

    headwater topic create orders --if-not-exists
    headwater topic create revenue --if-not-exists
    python sample_orders.py 1000 | headwater produce orders
    headwater pipeline validate
    headwater pipeline run --once
    headwater consume revenue --committed

`headwater pipeline run` without `--once` goes on until it is stopped (Ctrl-C, or `headwater pipeline stop`), and
`headwater pipeline status` tells how it is doing. Whatever running leaves behind is in `.headwater/`: remove that
directory to begin again from the first record.
"""

_FILES = {
    SPEC_NAMES[0]: _SPEC,
    "transformations/orders.py": _ORDERS,
    "transformations/revenue.sql": _REVENUE,
    "transformations/publish.py": _PUBLISH,
    "sample_orders.py": _SAMPLE,
    "README.md": _README,
    ".gitignore": ".headwater/\n__pycache__/\n",
}


def write(parent: Path, name: str) -> list[Path]:
    """Write the project into a new directory of its name, and return the paths of its files."""
    if not _NAME.fullmatch(name):
        raise ProjectError(
            f"{name!r} cannot be a project's name: a letter, then up to 63 letters, digits, dashes and underscores"
        )
    directory = parent / name
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise ProjectError(f"{directory} exists already: choose another name, or remove it") from None
    written: list[Path] = []
    for relative, text in _FILES.items():
        path = directory / relative
        path.parent.mkdir(exist_ok=True)
        # Not str.format(): some of the files contain braces of their own.
        path.write_text(text.replace("{name}", name), encoding="utf-8")
        written.append(path)
    return written
