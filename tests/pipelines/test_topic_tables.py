"""Which topics a SQL statement names."""

import pytest

from headwater.pipelines.topic_tables import named_topics

TOPICS = ["orders", "Orders", "my-orders", "a.b", "clicks"]


@pytest.mark.parametrize(
    ("statement", "topics"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM orders", []),
        ("SELECT * FROM headwater.orders", ["orders"]),
        ("SELECT * FROM HEADWATER . Orders o JOIN headwater.clicks USING (key)", ["Orders", "clicks"]),
        ("SELECT * FROM headwater.ORDERS", ["Orders", "orders"]),
        ("SELECT * FROM `headwater`.`my-orders`, headwater.`a.b`", ["a.b", "my-orders"]),
        ("SELECT * FROM headwater.nothing", []),
    ],
)
def test_topics_named_in_a_statement_are_found(statement: str, topics: list[str]) -> None:
    assert named_topics(statement, TOPICS) == topics
