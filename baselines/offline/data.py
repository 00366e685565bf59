"""Settings of offline learners; demonstrations as arrays for the compiled training program."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs import demos as datasets
from jaxenvs.core.checks import counted
from jaxenvs.demos import Demos

from ..core.bounds import Count, NonNegative, NonNegativeInt, Swept, Unlimited, Widths
from ..core.learner import Learner
from ..core.settings import Activation, Checked, Optimiser

WIDTH = 64  # smallest width, in steps, of a row that holds whole episodes, see `packed`
# The loss on held-out data leaves out the episodes that begin after this number of held-out steps.
MOST_HELD_OUT = 20_000
SPLIT = 0x5EED  # seed of the permutation that chooses the held-out episodes


@dataclasses.dataclass(frozen=True)
class Offline(Checked):
    """Settings shared by the learners that train on a dataset alone."""

    demos: str = ""  # dataset to learn from: its name, or the path of its folder
    # demonstrated steps sampled by all gradient steps together; rounded up to chunks of updates
    total_steps: Count = 1_000_000
    gradient_steps: Count = 50  # gradient steps per update
    batch_size: Count = 256  # demonstrated steps per gradient step, on all devices together
    learning_rate: Swept[NonNegative] = 1e-3  # initial learning rate
    anneal: bool = False  # whether the learning rate falls linearly to zero
    max_grad_norm: Swept[Unlimited] = 1.0  # gradients are clipped to this global norm
    optimiser: Optimiser = "adam"  # optimiser to which the clipped gradients are passed
    weight_decay: Swept[NonNegative] = 0.0  # weight decay of layer kernels; needs adamw or muon
    hidden: Widths = (128, 128)  # widths of the network's hidden layers
    embed: NonNegativeInt = 8  # embedding size of each cell of a map; 0: cells are one-hot vectors
    # kernel size (= stride) and features of each convolution over maps and pictures, such as 7 32
    conv: tuple[int, ...] = ()
    # features that one layer computes from each row and each column of a square board; 0: off
    lines: NonNegativeInt = 0
    activation: Activation = "tanh"  # activation function of the network's hidden layers
    bfloat16: bool = False  # whether activations are bfloat16 (meant for accelerators)
    # updates per call of the compiled program; after Ctrl-C a run ends within two calls
    chunk: Count = 1

    can_sweep = True
    unit: ClassVar[str] = "demonstrated steps"

    def check(self) -> None:
        super().check()
        if not self.demos:
            raise ValueError(
                "demos='': name a dataset, such as one that `jaxenvs demos ID --out mine/some-v0` "
                "wrote: --demos mine/some-v0"
            )
        if self.weight_decay and self.optimiser not in ("adamw", "muon"):
            raise ValueError(
                f"weight_decay={self.weight_decay}: optimiser={self.optimiser} has none; give "
                f"optimiser=adamw or muon"
            )

    @property
    def steps_per_update(self) -> int:
        """Number of demonstrated steps that the gradient steps of an update sample."""
        return self.gradient_steps * self.batch_size


class Rows(NamedTuple):
    """Steps of demonstrations, arrays (rows, width, ...).

    A row is a single step, several whole episodes one after another, or a part of a rollout.
    """

    obs: PyTree[Any]
    action: Any  # int32
    done: Any  # bool, whether the next step of the row begins another episode
    weight: Any  # float32, 1 for a step and 0 for padding
    memory: PyTree[
        Any
    ] = ()  # recurrent state before each row's first step, (rows, ...); (): the initial state


class Split(NamedTuple):
    """Demonstrations divided into training episodes and held-out episodes."""

    train: Rows
    held_out: Rows


class Transitions(NamedTuple):
    """Transitions of a dataset. Their order does not matter, because learners sample at random."""

    obs: PyTree[Any]  # observations, (observations, ...)
    index: Any  # int32 (steps,): step i leads from `obs[index[i]]` to `obs[index[i] + 1]`
    action: Any  # int32 (steps,)
    reward: Any  # float32 (steps,)
    terminated: Any  # bool (steps,)


def check(learner: Learner[Any], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the dataset cannot be read, or does not fit the environment.

    Also raise it if `batch_size` does not divide evenly among the devices.
    """
    size, devices = learner.settings.batch_size, learner.devices.count
    if size % devices:
        raise ValueError(f"batch_size={size} does not divide evenly among {devices} devices")
    learner.algorithm.load().params(learner)


def loaded(name: str, env: Env) -> Demos:
    """Return a dataset, converted to the environment's dtypes; cached until its file changes."""
    return _loaded(name, env, os.environ.get(datasets.layout.ROOT), _changed(name))


def _changed(name: str) -> float:
    """Return the time at which a dataset's file was last changed; 0 if there is no such file."""
    for folder in (name, datasets.layout.root() / name):
        for data in (os.path.join(folder, datasets.layout.DATA), folder):
            file = os.path.join(data, datasets.layout.MAIN)
            if os.path.isfile(file):
                return os.path.getmtime(file)
    return 0.0


@functools.lru_cache(maxsize=2)
def _loaded(name: str, env: Env, root: str | None, changed: float) -> Demos:
    return datasets.load(name, env)


def split(name: str, env: Env, held_out: float, is_recurrent: bool) -> Split:
    """Hold out the fraction `held_out` of the episodes; return training and held-out episodes.

    For a recurrent network, a row of the returned arrays holds whole episodes, else a single step.
    Raises `ValueError` if `held_out` is above 0 and one of the two sets would be empty.
    """
    root = os.environ.get(datasets.layout.ROOT)
    return _split(name, env, root, _changed(name), held_out, is_recurrent)


@functools.lru_cache(maxsize=2)
def _split(
    name: str, env: Env, root: str | None, changed: float, held_out: float, is_recurrent: bool
) -> Split:
    demos = _loaded(name, env, root, changed)
    count = round(held_out * demos.episodes)
    if held_out and not 0 < count < demos.episodes:
        raise ValueError(
            f"held_out={held_out} of {counted(demos.episodes, 'episode')} leaves none on one side; "
            f"record more, or give held_out=0"
        )
    order = np.random.default_rng(SPLIT).permutation(demos.episodes)
    train, held = order[count:], order[:count]
    enough = np.cumsum(demos.lengths[held]) - demos.lengths[held] < MOST_HELD_OUT
    # If no episodes are held out, return a training episode as a placeholder.
    held = held[enough] if count else train[:1]
    rows = packed if is_recurrent else single
    return Split(rows(demos, train), rows(demos, held))


def single(demos: Demos, episodes: np.ndarray) -> Rows:
    """Return the steps of the given episodes in rows of one step each."""
    ranges = zip(demos.starts[episodes].tolist(), demos.lengths[episodes].tolist(), strict=True)
    steps = np.concatenate([np.arange(start, start + length) for start, length in ranges])
    return _rows(demos, steps[:, None])


def packed(demos: Demos, episodes: np.ndarray) -> Rows:
    """Return rows of whole episodes, with several episodes per row, padded to equal width."""
    width = max(WIDTH, int(demos.lengths.max()))
    rows: list[list[int]] = [[]]
    for episode in episodes.tolist():
        length = int(demos.lengths[episode])
        if len(rows[-1]) + length > width:
            rows.append([])
        start = int(demos.starts[episode])
        rows[-1] += range(start, start + length)
    return _rows(demos, np.array([[*row, *[-1] * (width - len(row))] for row in rows]))


def _rows(demos: Demos, steps: np.ndarray) -> Rows:
    """Return `Rows` of the steps with the indices `steps` (rows, width); index -1 is padding."""
    last = np.zeros(demos.steps, bool)
    last[demos.starts + demos.lengths - 1] = True
    seen = demos.obs_index[steps]
    return Rows(
        obs=jax.tree.map(lambda leaf: leaf[seen], demos.obs),
        action=demos.action[steps],
        done=last[steps] | (steps < 0),
        weight=(steps >= 0).astype(np.float32),
    )


def transitions(name: str, env: Env) -> Transitions:
    """Return the demonstrations as transitions."""
    demos = loaded(name, env)
    return Transitions(
        obs=demos.obs,
        index=demos.obs_index.astype(np.int32),
        action=demos.action,
        reward=demos.reward,
        terminated=demos.terminated,
    )


def no_episodes() -> dict[str, Array]:
    """Return the metrics of an update in which no environment stepped."""
    return {
        "episodes": jnp.int32(0),
        "return_sum": jnp.float32(0),
        "length_sum": jnp.float32(0),
    }


def numbers(record: dict[str, Any], names: Sequence[str]) -> str:
    """Return text with the name and the mean over all seeds of each metric in `names`.

    `record` is a record of the log: for each metric, a list with one value per seed.
    """
    found = {name: [x for x in record.get(name, []) if x is not None] for name in names}
    return ", ".join(
        f"{name.replace('_', ' ')} {np.mean(values):.4g}"
        for name, values in found.items()
        if values
    )
