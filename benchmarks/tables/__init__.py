"""Tables of the pages, built from the JSON of the measurements.

Importing this package imports all its modules, which register their tables in `registry.TABLES`.
It needs only Python.
"""

from . import (  # noqa: F401 - each registers its tables
    card,
    commands,
    cpu,
    families,
    gpu,
    held_out,
    planning,
    readme,
    reliability,
    runs,
    solutions,
    texts,
    training,
)
