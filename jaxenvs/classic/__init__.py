"""Classic control: small physics problems for testing learners.

A new module in this folder is found without an import here.
"""

import importlib
import pkgutil

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

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)  # registers its ids
