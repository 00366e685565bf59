"""Classic control: small physics problems for testing learners.

The problems are CartPole, Acrobot, Pendulum and MountainCar, as in Gymnasium. Importing this
package imports every module in its folder, which registers the module's environments.
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
    importlib.import_module(_module.name)  # importing the module registers its environment ids
