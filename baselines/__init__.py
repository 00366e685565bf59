"""Reference learners and their shared code.

jaxenvs train Grid-DoorKey-5x5-v0
policy = jaxenvs.baselines.load_policy("runs/demo")

Packages import only from packages above them in this list or on the same line:

- `core`: settings, devices, rollouts, replay buffers, returns, evaluation;
- `networks`, `exploration`: flax networks and exploration bonuses;
- `on_policy`, `off_policy`, `model_based`, `offline`, `puzzles`: one module for each learner;
- `registry`: the table of learners; `presets`: their tuned settings;
- `storage`: a run's directory: configuration, checkpoints, saved policies;
- `evaluation`: evaluate, compare, export and record runs;
- `run`: `jaxenvs train`; `ray`: learners on a Ray cluster.
"""

import importlib
from typing import Any

from jaxenvs.core.extras import require

from . import old_names

# Python packages that the extra `train` installs.
NEEDED = (
    "chex",
    "flax",
    "matplotlib",
    "mctx",
    "optax",
    "orbax",
    "rich",
    "typing_extensions",
    "tyro",
)
GYM = "gym:"  # prefix of a Gymnasium environment's id; only Ray learners train in these

require(NEEDED, "train")
old_names.install()


def __getattr__(name: str) -> Any:
    if name == "load_policy":  # imported only when used: learners do not need it
        return importlib.import_module(".storage.runs", __name__).load_policy
    raise AttributeError(f"module {__name__} has no attribute {name}")
