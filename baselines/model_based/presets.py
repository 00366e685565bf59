"""Presets of the model-based learners. docs/learners/results.md lists measured returns."""

from ..core.preset import CARTPOLE, CRAFT_CLASSIC_IDS, EIGHT_PUZZLE, MAZES, rows
from ..on_policy.presets import OPEN_WORLD_BY_SIGHT, RECURRENT

# Dyna for Craft Classic on a CPU. On one core shared with another job, an update takes 11 s during
# the warm-up, most of it for training the model, and 19 s after the warm-up.
OPEN_WORLD_BY_DYNA = {
    **OPEN_WORLD_BY_SIGHT,
    "total_steps": 100_000,
    "entropy": 0.02,
    "warm_up": 30_000,
    "context": 2,
    "num_heads": 2,
    "model_rate": 2e-3,
    "model_steps": 160,
    "model_batch": 16,
    "imagined_rollouts": 2,
    "imagined_envs": 192,
    "imagined_steps": 16,
}

DYNA = (
    *rows(
        "dyna",
        *RECURRENT,
        (CRAFT_CLASSIC_IDS, OPEN_WORLD_BY_DYNA),
        # With this spacing, the atoms cover rewards of up to 4,400, and the model can distinguish
        # the smallest reward from 0: it is 1.2 after the transform h of two_hot.py.
        (r"Puzzle-2048-v\d+", {"atoms": 70, "spacing": 1.0}),
    ),
)

# Settings for Craft Classic. A reward is 1 for an achievement and 0.1 for a point of health. In
# single runs of 60,000 steps these settings reached a return of 3.3, against 2.8 with rescaled
# values and 3.0 with `value_consistency`.
OPEN_WORLD = {
    "total_steps": 300_000,
    "gamma": 0.95,
    "learning_rate": 5e-4,
    "hidden": (256,),
    "latent": 128,
    "spacing": 0.05,
    "unroll_steps": 3,
    "simulations": 8,
    "rescale": False,
    "value_scale": 0.2,
    "entropy": 0.005,
    "reanalysed": 0.0,
    "chunk": 4,
}

# Settings for CartPole. Values reach 300, and the values of the two actions differ little. The
# network predicts this difference accurately enough for searches without rescaling (`rescale` is
# False).
BALANCE = {
    "total_steps": 100_000,
    "gamma": 0.997,
    "n_step": 10,
    "rescale": False,
    "value_scale": 0.02,
    "gradient_steps": 32,
    "reanalysed": 0.5,
    "chunk": 4,
}

# Settings for rare rewards and few environment steps. All actions are random at first
# (`epsilon_start` is 1): as long as the model has seen no reward, a search cannot find rewards.
# Prioritised replay samples rewarded steps more often than others. Importance weights correct this
# bias only late in the run (`importance` starts at 0). Values are between 0 and 1, so atoms are
# narrowly spaced.
RARE_REWARD = {
    "total_steps": 100_000,
    "gamma": 0.98,
    "num_envs": 16,
    "rollout_steps": 8,
    "max_grad_norm": 1.0,
    "batch_size": 64,
    "priority": 0.6,
    "importance": 0.0,
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
    "epsilon_share": 0.4,
    "rescale": False,
    "value_scale": 4.0,
    "reanalysed": 0.5,
    "atoms": 20,
    "spacing": 0.05,
}

# Settings for the 8-puzzle. Only one random episode in a hundred solves the puzzle, so these
# settings collect more experience: they use more environments and a lower replay ratio.
SMALL_PUZZLE = {
    **RARE_REWARD,
    "total_steps": 600_000,
    "gamma": 0.95,
    "num_envs": 64,
    "gradient_steps": 32,
    "capacity": 300_000,
    "priority": 0.8,
    "epsilon_share": 0.3,
    "reanalysed": 0.25,
    "latent": 128,
    "embed": 0,
}

# Settings for 2048. The atoms cover values of up to 4,400. With their spacing, the network can
# distinguish the smallest reward from 0: it is 1.2 after the transform h of two_hot.py. Values are
# not rescaled: rescaling amplifies the noise in the values of early training, and one of three
# policies trained with rescaling never recovered from this noise. All policy targets are
# reanalysed, because stored targets are out of date for most of a run. The model has no chance
# outcomes (`codes` is 0); in runs with one seed, it planned better than a model with chance
# outcomes. The latent state has 16 numbers per cell and is trained to reconstruct the cells. This
# model predicted moves better than a model with one latent vector of 128 numbers for the whole
# board, and better than a model trained with the consistency loss alone.
TILES = {
    "total_steps": 100_000,
    "gamma": 0.99,
    "atoms": 70,
    "spacing": 1.0,
    "latent": 256,
    "hidden": (128,),
    "embed": 0,
    "gradient_steps": 32,
    "unroll_steps": 3,
    "lines": 64,
    "consistency": 0.0,
    "reconstruction": 4.0,
    "value_consistency": 1.0,
    "rescale": False,
    "value_scale": 0.03,
    "reanalysed": 1.0,
    "simulations": 8,
    "chunk": 2,
}

MUZERO = rows(
    "muzero",
    (MAZES, {**RARE_REWARD, "embed": 4}),
    (CARTPOLE, BALANCE),
    (r"Craft-Classic-.*", OPEN_WORLD),
    (EIGHT_PUZZLE, SMALL_PUZZLE),
    (r"Puzzle-2048-v\d+", TILES),
)

SEARCH = {"total_steps": 200_000, "gamma": 0.95, "simulations": 32, "embed": 0}
ALPHAZERO = rows("alphazero", (EIGHT_PUZZLE, SEARCH))

PRESETS = (*DYNA, *MUZERO, *ALPHAZERO)
