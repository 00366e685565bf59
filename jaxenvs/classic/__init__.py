"""Classic control: small physics problems for testing learners."""

from .acrobot import Acrobot, AcrobotParams, AcrobotState
from .cartpole import CartPole, CartPoleParams, CartPoleState
from .mountain_car import (
    MountainCar,
    MountainCarContinuous,
    MountainCarParams,
    MountainCarState,
)
from .pendulum import Pendulum, PendulumParams, PendulumState

__all__ = [
    "Acrobot",
    "AcrobotParams",
    "AcrobotState",
    "CartPole",
    "CartPoleParams",
    "CartPoleState",
    "MountainCar",
    "MountainCarContinuous",
    "MountainCarParams",
    "MountainCarState",
    "Pendulum",
    "PendulumParams",
    "PendulumState",
]
