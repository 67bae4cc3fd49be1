"""The name in `format("headwater")`. Apart from the source, which imports pyspark."""

from typing import Final

NAME: Final = "headwater"
