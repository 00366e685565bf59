"""Networks of the learners, in flax; `Network` is the base class of a user's network."""

from .policies import Network as Network
