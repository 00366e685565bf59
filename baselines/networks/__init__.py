"""Flax networks of the learners. A user's own network is a subclass of `policies.Network`."""

from .policies import Network as Network
