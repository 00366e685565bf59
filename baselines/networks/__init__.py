"""Flax networks of the learners. A user's own network is a subclass of `policies.Network`."""

from typing import Any

from .. import old_names
from .policies import Network as Network


def __getattr__(name: str) -> Any:
    """Return a member of the old module `networks`, which is now networks/policies.py."""
    return old_names.member(__name__, name)
