"""Compiles the record codecs where Cython and a C compiler are at hand; without them the same source runs as Python."""

from contextlib import suppress
from typing import cast

from setuptools import Extension, setup

BATCHES = "src/headwater/protocol/batches"
COMPILED = [
    Extension(
        f"headwater.protocol.batches.{name}",
        [f"{BATCHES}/{name}.py"],
        depends=[f"{BATCHES}/{needed}.pxd" for needed in (name, "memory", *also)],
    )
    for name, also in {"records": (), "columns": ("buffers",), "rows": ("buffers",)}.items()
]
DIRECTIVES = {
    "language_level": "3",
    # The types are in the .pxd files; the annotations in the source are for its readers and the type checker.
    "annotation_typing": False,
    # Every index is checked by the walk itself, and none counts from the end.
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    # `None` in place of an object is an error, not a crash.
    "nonecheck": True,
}

extensions: list[Extension] = []
with suppress(ImportError):
    from Cython.Build import cythonize  # pyright: ignore[reportUnknownVariableType]

    extensions = cast(
        "list[Extension]",
        cythonize(COMPILED, compiler_directives=DIRECTIVES, build_dir="build", include_path=["src"]),
    )
# Cython does not hand this on: without a compiler the extension is left out, and the installation succeeds.
for extension in extensions:
    extension.optional = True

setup(ext_modules=extensions)
