"""Environments with compiled functions, shared by all tests of a process.

A separate module, because several folders have a `conftest.py` and tests cannot import one of
them by name.
"""

import functools

import jaxenvs
from jaxenvs import testing


@functools.cache
def build(id: str) -> testing.Subject:
    """Return an environment with its compiled functions; each call returns the same object."""
    return testing.Subject.of(jaxenvs.make(id))
