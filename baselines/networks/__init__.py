"""Flax networks of the learners; users subclass `policies.Network`."""

from .policies import Network as Network
