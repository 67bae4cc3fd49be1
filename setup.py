"""Compiles the record codec where Cython and a C compiler are at hand; without them the same source runs as Python."""

from contextlib import suppress
from typing import cast

from setuptools import Extension, setup

PROTOCOL = "src/headwater/protocol"
RECORDS = Extension(
    "headwater.protocol.records",
    [f"{PROTOCOL}/records.py"],
    depends=[f"{PROTOCOL}/records.pxd", f"{PROTOCOL}/memory.pxd"],
)
DIRECTIVES = {
    "language_level": "3",
    # The types are in records.pxd; the annotations in the source are for its readers and the type checker.
    "annotation_typing": False,
    # Every index is checked by the walk itself, and none counts from the end.
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    # `None` in place of a record is an error, not a crash.
    "nonecheck": True,
}

extensions: list[Extension] = []
with suppress(ImportError):
    from Cython.Build import cythonize  # pyright: ignore[reportUnknownVariableType]

    extensions = cast(
        "list[Extension]",
        cythonize([RECORDS], compiler_directives=DIRECTIVES, build_dir="build", include_path=["src"]),
    )
# Cython does not hand this on: without a compiler the extension is left out, and the installation succeeds.
for extension in extensions:
    extension.optional = True

setup(ext_modules=extensions)
