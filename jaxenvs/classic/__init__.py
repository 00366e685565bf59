"""Classic control: small physics problems for trying out learners."""

from .cartpole import CartPole, CartPoleParams, CartPoleState

__all__ = ["CartPole", "CartPoleParams", "CartPoleState"]
