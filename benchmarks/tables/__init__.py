"""Tables of the pages, built from the JSON of the measurements.

`registry.TABLES` is complete once this package is imported, which needs only Python.
"""

from . import (  # noqa: F401 - each registers its tables
    card,
    commands,
    cpu,
    families,
    gpu,
    planning,
    readme,
    reliability,
    runs,
    training,
)
