"""Environments with compiled functions, shared by all tests of a process.

This code is not in a `conftest.py`, because several folders have one, and tests cannot import a
certain one of them by name.
"""

import functools

import jaxenvs
from jaxenvs import testing


@functools.cache
def build(id: str) -> testing.Subject:
    """Return an environment with its compiled functions; each call returns the same object."""
    return testing.Subject.of(jaxenvs.make(id))
