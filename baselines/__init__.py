"""Reference learners: each is one file that reads from top to bottom.

jaxenvs train Grid-DoorKey-5x5-v0
policy = jaxenvs.baselines.runs.load_policy("runs/demo")
"""

from jaxenvs.core.extras import require

# What the extra `train` installs.
NEEDED = ("chex", "flax", "matplotlib", "mctx", "optax", "orbax", "rich", "tyro")
GYM = "gym:"  # how ids of Gymnasium's environments begin: actors of Ray step them

require(NEEDED, "train")
