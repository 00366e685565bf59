"""Tables of the documentation's pages, built from the JSON files of the measurements.

Importing this package imports all its modules, which register their tables in `registry.TABLES`.
The package needs only Python's standard library.
"""

from . import (  # noqa: F401 - each registers its tables
    card,
    commands,
    cpu,
    curricula,
    families,
    gpu,
    held_out,
    planning,
    readme,
    reliability,
    runs,
    setups,
    solutions,
    speedruns,
    texts,
    training,
)
