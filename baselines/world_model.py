"""A world model that is searched: A* plans for the 8-puzzle in codes learned from its pictures.

python -m jaxenvs.baselines.world_model --out runs/world

After Agostinelli and Soltani (2024), "Learning discrete world models for heuristic search". The
only data are noisy pictures from before and after a random move. Each cell of a picture becomes a
few bits, from which the cell is painted again; a second network predicts the bits after an action
from those of the cell and its neighbours. Both are trained together. A* then searches the learned
world, where equal bits are one state, until it meets the code of the goal's picture, and its plans
are carried out in the true puzzle. Deliberate difference: the heuristic is not learned; it is the
number of cells that differ from the goal's.
"""

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs import make, search
from jaxenvs.core.bits import pack, unpack, words_for
from jaxenvs.core.pixels import compose
from jaxenvs.puzzles.puzzle import Move, Puzzle

from .minibatches import apply_gradient

PUZZLE = "Puzzle-SlidingTile-3x3-v0"
SIZE = 3  # cells in a row of the puzzle
CELLS = SIZE * SIZE
ACTIONS = 4
FIRM = 2.0  # standard deviation of a cell's logits
UNDECIDED = 0.1  # weight of the loss for logits that are not as far from 0 as others
CONTRAST = 5.0  # of shapes
SHAKE = 1.0  # standard deviation of the noise on a bit's logit while learning


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the training."""

    transitions: int = 20_000  # pictures before and after a random move
    tile_size: int = 8  # pixels
    noise: float = 0.05  # standard deviation of each pixel, of brightness 0 to 1
    bits: int = 8  # of each cell's code
    hidden: int = 128  # width of the networks' layers
    gradient_steps: int = 3_000
    batch: int = 64  # pictures in a gradient step
    learning_rate: float = 3e-3  # at the start; it falls to zero


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """Flags of the command line."""

    out: Path  # directory for world_model.json
    boards: int = 100  # to plan for
    budget: int = 100_000  # nodes for each of them
    seed: int = 0


class Transitions(NamedTuple):
    """What is learned from: pictures as uint8, and actions."""

    before: Array  # (transitions, pixels, pixels, 3)
    action: Int32[Array, " transitions"]
    after: Array


class WorldModel(nn.Module):
    """Pictures to bits and back, and bits to the bits after an action; takes one, `vmap` it."""

    settings: Settings

    def setup(self) -> None:
        hidden, bits = self.settings.hidden, self.settings.bits
        self.encoder = nn.Sequential([nn.Dense(hidden), nn.relu, nn.Dense(bits)])
        pixels = self.settings.tile_size**2 * 3
        self.painter = nn.Sequential([nn.Dense(hidden), nn.relu, nn.Dense(pixels)])
        layers = [nn.Dense(hidden // 2), nn.relu, nn.Dense(hidden // 2), nn.relu, nn.Dense(bits)]
        self.mover = nn.Sequential(layers)

    def encode(self, shapes: Float32[Array, "cells numbers"]) -> Float32[Array, "cells bits"]:
        """Logits of each cell's bits, with mean 0: bits that never change would learn no more."""
        logits = self.encoder(shapes)
        centred = logits - logits.mean(axis=1, keepdims=True)
        return FIRM * centred / (1e-3 + centred.std(axis=1, keepdims=True))

    def paint(self, bits: Float32[Array, "cells bits"]) -> Float32[Array, "cells numbers"]:
        """The shapes that bits stand for."""
        return self.painter(bits)

    def move(
        self, bits: Float32[Array, "cells bits"], action: Int32[Array, ""]
    ) -> Float32[Array, "cells bits"]:
        """Logits of the bits after an action: of each cell from its own bits and those around."""
        grid = bits.reshape(SIZE, SIZE, -1)
        inside = jnp.ones((SIZE, SIZE, 1), jnp.float32)
        padded = jnp.pad(jnp.concatenate([grid, inside], axis=-1), ((1, 1), (1, 1), (0, 0)))
        around = [
            padded[row : row + SIZE, column : column + SIZE]
            for row, column in ((1, 1), (0, 1), (1, 2), (2, 1), (1, 0))
        ]
        chosen = jnp.broadcast_to(jax.nn.one_hot(action, ACTIONS), (SIZE, SIZE, ACTIONS))
        seen = jnp.concatenate([*around, chosen], axis=-1)
        return self.mover(seen.reshape(CELLS, -1))

    def __call__(
        self, before: Array, action: Array, after: Array, key: Array, progress: Array
    ) -> Float32[Array, ""]:
        """The loss of one transition; `progress` goes from 0 to 1 in training.

        The codes are learned from painting alone: to be easy to foretell they would lose what
        tells tiles apart. Noise on their logits, in painting, and in the second half a loss keep
        bits from being undecided.
        """
        seen = jax.vmap(functools.partial(shapes, tile=self.settings.tile_size))
        seen = seen(jnp.stack([before, after]))
        logits = jax.vmap(self.encode)(seen)
        shaken = logits + SHAKE * jax.random.normal(key, logits.shape)
        painted = jnp.square(jax.vmap(self.paint)(rounded(shaken)) - seen)
        bits = (logits > 0).astype(jnp.float32)
        wrong_bits = optax.sigmoid_binary_cross_entropy(self.move(bits[0], action), bits[1])
        undecided = jnp.square(jnp.abs(logits) / FIRM - 1.0).mean()
        weight = UNDECIDED * jnp.maximum(2.0 * progress - 1.0, 0.0)
        return painted.mean() + wrong_bits.mean() + weight * undecided


def shapes(
    picture: Float32[Array, "pixels pixels 3"], tile: int
) -> Float32[Array, "cells numbers"]:
    """What is seen of each cell: its pixels without their mean, since brightness tells little."""
    cells = picture.reshape(SIZE, tile, SIZE, tile, 3).transpose(0, 2, 1, 3, 4).reshape(CELLS, -1)
    return CONTRAST * (cells - cells.mean(axis=1, keepdims=True))


def rounded(logits: Array) -> Float32[Array, "*cells bits"]:
    """Bits as 0.0 or 1.0, whose gradient is that of their probability."""
    chance = jax.nn.sigmoid(logits)
    return chance + jax.lax.stop_gradient((logits > 0).astype(jnp.float32) - chance)


def noisy(picture: Array, key: Array, noise: float) -> Float32[Array, "pixels pixels 3"]:
    """A picture of bytes as a camera gives it: brightness 0 to 1 with noise."""
    light = picture.astype(jnp.float32) / 255.0
    return light + noise * jax.random.normal(key, light.shape)


def gather(puzzle: Puzzle, settings: Settings, key: Array) -> Transitions:
    """Look at random boards before and after a random move, which may be illegal."""
    atlas = puzzle.atlas(settings.tile_size)

    def one(key: Array) -> Transitions:
        key_reset, key_action, key_step = jax.random.split(key, 3)
        state = puzzle.reset(key_reset).state
        action = jax.random.randint(key_action, (), 0, ACTIONS, dtype=jnp.int32)
        after = puzzle.step(key_step, state, action).state
        pictures = [compose(puzzle.tiles(x), atlas) for x in (state, after)]
        return Transitions(pictures[0], action, pictures[1])

    return jax.jit(jax.vmap(one))(jax.random.split(key, settings.transitions))


def learn(settings: Settings, seen: Transitions, key: Array) -> PyTree[Array]:
    """Train the model; return its weights."""
    model = WorldModel(settings)
    key_init, key_learn = jax.random.split(key)
    shape = seen.before.shape[1:]
    blank = jnp.zeros(shape, jnp.float32)
    weights = model.init(key_init, blank, jnp.int32(0), blank, key_init, jnp.float32(0))
    fall = optax.cosine_decay_schedule(settings.learning_rate, settings.gradient_steps)
    optimiser = optax.adam(fall)

    def loss(weights: PyTree[Array], key: Array, progress: Array) -> Array:
        key_rows, key_before, key_after, key_shake = jax.random.split(key, 4)
        rows = jax.random.randint(key_rows, (settings.batch,), 0, len(seen.action))
        add = jax.vmap(functools.partial(noisy, noise=settings.noise))
        before = add(seen.before[rows], jax.random.split(key_before, settings.batch))
        after = add(seen.after[rows], jax.random.split(key_after, settings.batch))
        apply = functools.partial(model.apply, weights)
        keys = jax.random.split(key_shake, settings.batch)
        over_batch = jax.vmap(apply, in_axes=(0, 0, 0, 0, None))
        losses = over_batch(before, seen.action[rows], after, keys, progress)
        return losses.mean()  # type: ignore[union-attr]

    @functools.partial(jax.jit, donate_argnums=0)
    def some(carry: Any, steps: Any) -> tuple[Any, Array]:
        def step(carry: Any, step: Any) -> tuple[Any, Array]:
            value, gradient = jax.value_and_grad(loss)(carry[0], *step)
            return apply_gradient(optimiser, gradient, carry[1], carry[0]), value

        return jax.lax.scan(step, carry, steps)

    keys = jax.random.split(key_learn, settings.gradient_steps)
    progress = jnp.linspace(0.0, 1.0, settings.gradient_steps)
    carry, count = (weights, optimiser.init(weights)), -(-settings.gradient_steps // 10)
    for begin in range(0, settings.gradient_steps, count):
        part = slice(begin, begin + count)
        carry, losses = some(carry, (keys[part], progress[part]))
        done = min(begin + count, settings.gradient_steps)
        print(f"{done:,} gradient steps: loss {float(losses[-50:].mean()):.5f}", flush=True)
    return carry[0]


def domain(settings: Settings, weights: PyTree[Array]) -> search.Domain:
    """The learned world as a search takes it: boards are bits, the instance is the goal's bits."""
    model = WorldModel(settings)
    count = CELLS * settings.bits

    def neighbours(goal: Bool[Array, "cells bits"], board: Bool[Array, "cells bits"]) -> Move:
        actions = jnp.arange(ACTIONS, dtype=jnp.int32)
        move = functools.partial(model.apply, weights, method="move")
        after = jax.vmap(lambda a: move(board.astype(jnp.float32), a))(actions) > 0  # type: ignore[operator]
        changed = (after != board).any(axis=(1, 2))
        return Move(after, jnp.ones(ACTIONS, jnp.float32), changed)

    def is_goal(goal: Bool[Array, "cells bits"], board: Bool[Array, "cells bits"]) -> Array:
        return (goal == board).all()

    def heuristic(goal: Bool[Array, "cells bits"], board: Bool[Array, "cells bits"]) -> Array:
        cells = (goal != board).any(axis=1).sum(dtype=jnp.int32)
        return jnp.maximum(cells - 1, 0).astype(jnp.float32)  # a move changes two of them

    def words(board: Bool[Array, "cells bits"]) -> UInt32[Array, " words"]:
        return pack(board.reshape(-1).astype(jnp.uint8), 1)

    def bits(words: UInt32[Array, " words"]) -> Bool[Array, "cells bits"]:
        return unpack(words, count, 1).reshape(CELLS, settings.bits) == 1

    return search.Domain(
        neighbours=neighbours,
        is_goal=is_goal,
        pack=words,
        unpack=bits,
        num_actions=ACTIONS,
        num_words=words_for(count, 1),
        heuristic=heuristic,
        unit_cost=True,
    )


def see(settings: Settings, weights: PyTree[Array], puzzle: Puzzle, board: Any, key: Any) -> Array:
    """The code of a noisy picture of a board."""
    tiles = puzzle.observe_board((), board).astype(jnp.int32)
    picture = noisy(compose(tiles, puzzle.atlas(settings.tile_size)), key, settings.noise)
    seen = shapes(picture, settings.tile_size)
    return WorldModel(settings).apply(weights, seen, method="encode") > 0  # type: ignore[operator]


def evaluate(
    settings: Settings, weights: PyTree[Array], puzzle: Puzzle, key: Array, boards: int, budget: int
) -> dict[str, Any]:
    """Plan in the learned world from pictures of random boards; carry the plans out in truth."""
    key_levels, key_seen, key_goal, key_after = jax.random.split(key, 4)
    levels = jax.jit(jax.vmap(puzzle.sample_level))(jax.random.split(key_levels, boards))
    look, learned = functools.partial(see, settings, weights, puzzle), domain(settings, weights)
    codes = jax.jit(jax.vmap(look))(levels.board, jax.random.split(key_seen, boards))
    goals = jnp.broadcast_to(jax.jit(look)(puzzle.goal(()), key_goal), codes.shape)
    accuracy = agreement(puzzle, levels.board, codes, learned, look, key_after)
    begun = time.perf_counter()
    plans = search.astar(
        learned,
        type(levels)(board=codes, instance=goals),
        batch_size=min(4096, budget),
        node_budget=boards * budget,
        max_length=64,
    )
    arrived = jax.jit(jax.vmap(functools.partial(carry_out, puzzle)))(levels.board, plans.actions)
    found = np.asarray(plans.solved)
    solved = np.asarray(jax.jit(jax.vmap(functools.partial(puzzle.is_goal, ())))(arrived)) & found
    return {
        "boards": boards,
        "codes_foretold": round(accuracy, 6),
        "plans_found": float(found.mean()),
        "goal_out_of_reach": float(np.asarray(plans.unsolvable).mean()),  # in the learned world
        "solved": float(solved.mean()),  # by the plan, in the true puzzle
        "mean_length": round(float(np.asarray(plans.cost)[found].mean()), 3)
        if found.any()
        else None,
        "states_expanded_per_board": round(int(plans.expanded) / boards),
        "search_seconds": round(time.perf_counter() - begun, 1),
    }


def agreement(
    puzzle: Puzzle,
    boards: PyTree[Array],
    codes: Bool[Array, "boards cells bits"],
    learned: search.Domain,
    look: Callable[[Any, Array], Array],
    key: Array,
) -> float:
    """Share of the moves of which the model foretells the code that the new picture has."""
    guessed = jax.vmap(learned.neighbours)(codes, codes).board  # whatever the goal
    reached = jax.vmap(functools.partial(puzzle.neighbours, ()))(boards).board
    keys = jax.random.split(key, guessed.shape[:2])
    truth = jax.jit(jax.vmap(jax.vmap(look)))(reached, keys)
    return float((guessed == truth).all(axis=(2, 3)).mean())


def carry_out(puzzle: Puzzle, board: Any, actions: Int32[Array, " longest"]) -> Any:
    """Take the actions in the true puzzle, those that are not -1; return the last board."""

    def step(board: Any, action: Array) -> tuple[Any, None]:
        after = puzzle.apply((), board, jnp.maximum(action, 0)).board
        return jnp.where(action < 0, board, after), None

    return jax.lax.scan(step, board, actions)[0]


def main(argv: list[str] | None = None) -> int:
    """Learn the model, plan in it, print and write what came of it."""
    program = "python -m jaxenvs.baselines.world_model"
    asked = tyro.cli(Options, args=argv, prog=program, description=__doc__)
    puzzle = make(PUZZLE)
    assert isinstance(puzzle, Puzzle)
    keys = jax.random.split(jax.random.key(asked.seed), 3)
    begun = time.perf_counter()
    weights = learn(asked, gather(puzzle, asked, keys[0]), keys[1])
    seconds = round(time.perf_counter() - begun, 1)
    result = evaluate(asked, weights, puzzle, keys[2], asked.boards, asked.budget)
    result = {**dataclasses.asdict(asked), "training_seconds": seconds} | result
    del result["out"]
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "world_model.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    for name, value in result.items():
        print(f"{name.replace('_', ' ')}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
