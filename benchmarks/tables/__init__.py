"""The tables of the pages, made of the JSON that the measurements leave.

`registry.TABLES` has all of them once this package is imported, which needs Python alone.
"""

from . import (  # noqa: F401 - each registers its tables
    card,
    craft,
    families,
    first,
    gpu,
    grids,
    kernel_model,
    peers,
    planning,
    puzzles,
    recorded,
    reliability,
    runs,
    training,
    work,
)
