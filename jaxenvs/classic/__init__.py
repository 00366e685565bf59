"""Classic control: small physics, for learners to be tried on."""

from .cartpole import CartPole, CartPoleParams, CartPoleState

__all__ = ["CartPole", "CartPoleParams", "CartPoleState"]
