"""Environments with compiled functions, shared by all tests of a process.

This code is not in `conftest.py`: several folders have a file of this name, so a test could not
choose from which of them to import.
"""

import functools

import jaxenvs
from jaxenvs import testing


@functools.cache
def build(id: str) -> testing.Subject:
    """Return an environment with its compiled functions; each call returns the same object."""
    return testing.Subject.of(jaxenvs.make(id))
