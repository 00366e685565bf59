"""Reference learners: each is one file that reads from top to bottom.

jaxenvs train Grid-DoorKey-5x5-v0
policy = jaxenvs.baselines.runs.load_policy("runs/demo")
"""

import importlib.util
from collections.abc import Iterable

NEEDED = ("flax", "matplotlib", "optax", "orbax", "rich", "tyro")  # what the extra `train` installs
GYM = "gym:"  # how ids of Gymnasium's environments begin: actors of Ray step them


def require(packages: Iterable[str], extra: str = "train") -> None:
    """Raise `ImportError`, with the command that installs them, for packages that are missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"training needs {', '.join(missing)}, not installed here: "
            f'run pip install "jaxenvs[{extra}]"'
        )


require(NEEDED)
