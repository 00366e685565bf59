"""Mutation tests: break a rule, an auto-reset or a learner, and find the test that fails.

    python tests/mutations.py [NAME ...]     all, or those named; prints a table

Each mutation is made in a copy of the source tree. There the tests of the mutation's test files,
except those marked `slow`, run until one fails. If none fails, the mutation `survives`, which shows
a gap in the tests.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".cache", "runs", "build", "__pycache__")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?= - |$)", re.MULTILINE)


class Mutation(NamedTuple):
    """A fault to make: replace `old` by `new` in a file."""

    file: str
    old: str  # text that occurs exactly once in the file
    new: str
    tests: str  # test files under `tests/` that should detect the fault, and options of pytest


FULL = "craft/test_full_differential.py"
PLAYS = "puzzlescript/test_machine.py -k different_games"
RARE = "puzzlescript/test_machine.py -k rigid_rules_or"

MUTATIONS = {
    "a restart takes a state of any score": Mutation(
        "baselines/core/restarts.py",
        "1.0 / (jnp.maximum(visits, 1.0) * jnp.maximum(each, 1.0))",
        "1.0 / jnp.maximum(each, 1.0)",
        "baselines/test_restarts.py",
    ),
    "a state is saved as if its score were one lower": Mutation(
        "baselines/core/restarts.py",
        "kind = jnp.minimum(score, kinds) - 1",
        "kind = jnp.minimum(score, kinds) - 2",
        "baselines/test_restarts.py",
    ),
    "two environments write to the same slot": Mutation(
        "baselines/core/restarts.py",
        'keeps = chosen.at[slot].get(mode="fill", fill_value=-1) == envs',
        "keeps = slot < slots",
        "baselines/test_restarts.py",
    ),
    "an environment restarts from an empty archive": Mutation(
        "baselines/core/restarts.py",
        " & (saved.scores > 0).any()",
        "",
        "baselines/test_restarts.py",
    ),
    "every environment whose episode ended restarts": Mutation(
        "baselines/core/restarts.py",
        "rows = due & ended",
        "rows = ended & (saved.scores > 0).any()",
        "baselines/test_restarts.py",
    ),
    "episodes from saved states are counted": Mutation(
        "baselines/core/restarts.py",
        "whole = jnp.where(began_here, ~due, ~restarted)",
        "whole = jnp.where(began_here, ~due, True)",
        "baselines/test_restarts.py",
    ),
    "a restart begins with an empty recurrent state": Mutation(
        "baselines/core/restarts.py",
        "memory=select(rows, memory, runner.memory),",
        "memory=jax.tree.map(jnp.zeros_like, memory),",
        "baselines/test_restarts.py",
    ),
    "a restart forgets its score": Mutation(
        "baselines/core/restarts.py",
        "reached=jnp.where(rows, saved.scores[slot], score),",
        "reached=score,",
        "baselines/test_restarts.py",
    ),
    "a full hand picks up": Mutation(
        "jaxenvs/grid/rules.py",
        "tiles.is_portable(front) & (state.carried == 0)",
        "tiles.is_portable(front)",
        "grid/test_rules.py",
    ),
    "a grid reward falls less": Mutation(
        "jaxenvs/core/gridworld.py",
        "1.0 - 0.9 * share",
        "1.0 - 0.8 * share",
        "grid/test_differential.py -k every_family",
    ),
    "a level is replayed by the rank of the worst score": Mutation(
        "baselines/core/level_buffer.py",
        "jnp.where(buffer.filled, -buffer.played.score, jnp.inf)",
        "jnp.where(buffer.filled, buffer.played.score, jnp.inf)",
        "baselines/test_level_buffer.py",
    ),
    "a full buffer takes every new level": Mutation(
        "baselines/core/level_buffer.py",
        "(score[best_first] > buffer.played.score[places])",
        "(score[best_first] > -jnp.inf)",
        "baselines/test_level_buffer.py",
    ),
    "a robust curriculum learns from new levels": Mutation(
        "baselines/on_policy/plr.py",
        "trains = plan.kind == REPLAY if settings.robust else True",
        "trains = plan.kind != EDIT if settings.robust else True",
        "baselines/test_curricula.py -k robust",
    ),
    "a shortest plan turns for nothing": Mutation(
        "jaxenvs/grid/floodfill.py",
        "jnp.minimum(jnp.roll(best, 1, 0), jnp.roll(best, -1, 0))",
        "jnp.roll(best, 1, 0)",
        "grid/test_mazes.py -k named",
    ),
    "a door in the last row": Mutation(
        "jaxenvs/grid/doorkey.py",
        "below(word_door, size - 3)",
        "below(word_door, size - 2)",
        "grid/test_levels.py -k DoorKey",
    ),
    "a plan must face the door that it has to reach": Mutation(
        "jaxenvs/grid/tasks.py",
        "Aim(where, 1, slack=2)",
        "Aim(where, 1)",
        "grid/test_oracle.py -k GoToDoor",
    ),
    "a plan needs eight more steps for a key": Mutation(
        "jaxenvs/grid/oracle/locks.py",
        "to_key + to_door + 1",
        "to_key + to_door + 9",
        "grid/test_oracle.py -k DoorKey",
    ),
    "a plan goes back for an object in hands": Mutation(
        "jaxenvs/babyai/aims.py",
        "pending & (verb != m.NOTHING) & ~held",
        "pending & (verb != m.NOTHING)",
        "grid/test_oracle.py -k PutNext",
    ),
    "a tour takes one action more": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        "free + moved) + toggled",
        "free + moved) + toggled + 1",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "a tour keeps to the order of the mission": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        "jnp.minimum(tied + picked + dropped, free + moved)",
        "(tied + picked + dropped)",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "the agent can move no object of the mission": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        "jnp.stack([before, jnp.where(aims.fixed[slot], before, 0)], axis=1)",
        "jnp.stack([before, before], axis=1)",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "an object that was moved still has to be faced in its first cell": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        "aims.active & ~(aims.cells & ~tours.cells).any(axis=1)",
        "aims.active",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "aims that are met are part of a tour": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        "goes = aims.active & ~(aims",
        "goes = ~(aims",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "every instruction needs its own object": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        " & ~(taken & cells[i]).any()",
        "",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "the agent drops an object after every pick-up": Mutation(
        "jaxenvs/grid/oracle/tour.py",
        "all_picked - 1 + hands",
        "all_picked + hands",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "an open door has to be opened": Mutation(
        "jaxenvs/grid/oracle/doors.py",
        "(kind == Kind.CLOSED_DOOR)",
        "((kind == Kind.CLOSED_DOOR) | (kind == Kind.DOOR))",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "the agent opens a door twice": Mutation(
        "jaxenvs/grid/oracle/doors.py",
        "(start.astype(jnp.int32) + ends[:, None] + ends[None]).min(axis=-1)",
        "(start.astype(jnp.int32) + ends[:, None] + ends[None])[..., 0]",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "a toggle serves one instruction only": Mutation(
        "jaxenvs/grid/oracle/bounds.py",
        "costs = is_closed & ~serves",
        "costs = is_closed",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "unlocking a door serves no instruction": Mutation(
        "jaxenvs/grid/oracle/locks.py",
        "toggle=(~serves_door)",
        "toggle=(doors[0] == doors[0])",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "the pick-up of a key serves no instruction": Mutation(
        "jaxenvs/grid/oracle/locks.py",
        "pick_up=(~serves_key)",
        "pick_up=(doors[0] == doors[0])",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "a key in hands serves no instruction": Mutation(
        "jaxenvs/grid/oracle/bounds.py",
        "(tours.lock.pick_up != 0) & ~can_serve",
        "(tours.lock.pick_up != 0)",
        "grid/test_oracle_levels.py -k carried_key",
    ),
    "a level without a locked door needs a key": Mutation(
        "jaxenvs/grid/oracle/bounds.py",
        "needs_key = is_locked.any() & (goes & is_behind).any()",
        "needs_key = (goes & is_behind).any()",
        "grid/test_oracle_levels.py -k many_rooms",
    ),
    "a key that was moved still has to be faced in its first cell": Mutation(
        "jaxenvs/grid/oracle/locks.py",
        " | (keys.cells[0] & ~lock.keys).any()",
        "",
        "grid/test_oracle_bounds.py -k tour",
    ),
    "no plan needs the objects of the mission": Mutation(
        "jaxenvs/grid/oracle/sides.py",
        "tiles.is_portable(grid) & ~named",
        "tiles.is_portable(grid)",
        "grid/test_oracle_bounds.py -k both_sides",
    ),
    "no plan needs a key": Mutation(
        "jaxenvs/grid/oracle/sides.py",
        "& ~needed & ~is_under",
        "& ~is_under",
        "grid/test_oracle_bounds.py -k keys",
    ),
    "no plan moves an object that is in the way": Mutation(
        "jaxenvs/grid/oracle/sides.py",
        "first, things, tiles.EMPTY), left)",
        "first, things, tiles.WALL), left)",
        "grid/test_oracle_bounds.py -k keys",
    ),
    "a drop takes four actions": Mutation(
        "jaxenvs/grid/putnear.py",
        "tasks.tile(state.task, 3)), 2, state.carried == 0",
        "tasks.tile(state.task, 3)), 6, state.carried >= 0",
        "grid/test_oracle.py -k PutNear",
    ),
    "one more sword is no help": Mutation(
        "jaxenvs/craft/attack.py",
        "weapon.damage * world.items[weapon.item]",
        "weapon.damage * jnp.minimum(world.items[weapon.item], 1)",
        "craft/test_craft_mobs.py",
    ),
    "the light of a ladder keeps within the border": Mutation(
        "jaxenvs/craft/floors.py",
        "jnp.where(place < 4, most, jnp.minimum(place, most))",
        "place.clip(4, most)",
        "craft/test_floors.py",
    ),
    "a corridor ends in its own room's column": Mutation(
        "jaxenvs/craft/dungeons.py",
        "(between, line == goal)",
        "(between, line == corner)",
        "craft/test_floors.py",
    ),
    "a later room keeps the chest": Mutation(
        "jaxenvs/craft/dungeons.py",
        "chest > (covers ^ chest)",
        "chest > 0",
        "craft/test_floors.py",
    ),
    "the graveyard has no stone": Mutation(
        "jaxenvs/craft/floors.py",
        "jnp.where((_CELL == 0) & no_stone, Block.STONE, map)",
        "map",
        "craft/test_floors.py",
    ),
    "iron is more frequent than coal": Mutation(
        "jaxenvs/craft/floors.py",
        "COAL=0.03, IRON=0.02, DIAMOND=0.001",
        "COAL=0.02, IRON=0.03, DIAMOND=0.001",
        "craft/test_floors.py",
    ),
    "strength adds less": Mutation(
        "jaxenvs/craft/attack.py",
        "base * (1 + np.float32(0.25) * strong)",
        "base * (1 + np.float32(0.2) * strong)",
        FULL,
    ),
    "armour keeps off more": Mutation(
        "jaxenvs/craft/harm.py",
        "_TENTH, _FIFTH = np.float32(0.1), np.float32(0.2)",
        "_TENTH, _FIFTH = np.float32(0.11), np.float32(0.2)",
        FULL,
    ),
    "a charm on the bow does less": Mutation(
        "jaxenvs/craft/projectiles.py",
        "half, charm = blow[0] * np.float32(0.5)",
        "half, charm = blow[0] * np.float32(0.4)",
        FULL,
    ),
    "a potion does what its colour's number says": Mutation(
        "jaxenvs/craft/magic.py",
        "jnp.where(this, world.effects[colour], effect)",
        "jnp.where(this, np.int32(number), effect)",
        FULL,
    ),
    "a ladder needs nine kills": Mutation(
        "jaxenvs/craft/ladders.py",
        "(under == Item.LADDER_DOWN) & (world.kills >= CLEARED)",
        "(under == Item.LADDER_DOWN) & (world.kills > CLEARED)",
        FULL,
    ),
    "archers do not guard the necromancer": Mutation(
        "jaxenvs/craft/boss.py",
        '(*world.mobs["melee"], *world.mobs["ranged"])',
        'world.mobs["melee"]',
        FULL,
    ),
    "a spell takes three mana": Mutation(
        "jaxenvs/craft/magic.py",
        "CAST, ENCHANT = 2, 9",
        "CAST, ENCHANT = 3, 9",
        FULL,
    ),
    "an arrow of the player skips a cell": Mutation(
        "jaxenvs/craft/projectiles.py",
        "    one = world.missiles[slot]\n    row, column = one.row + one.d_row,",
        "    one = world.missiles[slot]\n    row, column = one.row + 2 * one.d_row,",
        FULL,
    ),
    "a trait takes two points": Mutation(
        "jaxenvs/craft/growth.py",
        'world.traits["xp"] >= 1',
        'world.traits["xp"] >= 2',
        FULL,
    ),
    "a torch lights less": Mutation(
        "jaxenvs/craft/ground.py",
        "_REACH = 22\n",
        "_REACH = 18\n",
        FULL,
    ),
    "archers shoot from afar": Mutation(
        "jaxenvs/craft/tables.py",
        '"farthest_shot": 5',
        '"farthest_shot": 6',
        FULL,
    ),
    "who thirsts goes on resting": Mutation(
        "jaxenvs/craft/body.py",
        ' | (vitals["food"] <= 0) | (vitals["drink"] <= 0)\n    return',
        ' | (vitals["food"] <= 0)\n    return',
        FULL,
    ),
    "an ice table enchants a piece that has ice": Mutation(
        "jaxenvs/craft/magic.py",
        "one(charm == opposite)",
        "one(charm == kind)",
        "craft/test_full_quirks.py",
    ),
    "a chest's pickaxe or sword replaces a better one": Mutation(
        "jaxenvs/craft/chests.py",
        "jnp.maximum(items[tool], jnp.where(opens, level, 0))",
        "jnp.where(opens & (level > 0), level, items[tool])",
        "craft/test_full_quirks.py",
    ),
    "nobody rests at full health": Mutation(
        "jaxenvs/craft/full.py",
        "            **ladders.able(self.rules, world, ground, params.god_mode),",
        """            Action.REST: world.vitals["health"] < body.most(self.rules, world, "health"),
            **ladders.able(self.rules, world, ground, params.god_mode),""",
        "craft/test_full_quirks.py",
    ),
    "chests hold arrows more often": Mutation(
        "jaxenvs/craft/chance.py",
        "happens(0.25)",
        "happens(0.3)",
        "craft/test_full_chance.py",
    ),
    "a rule that chains is applied last": Mutation(
        "jaxenvs/xland/engine.py",
        "return jax.lax.scan(one, scene, rules, unroll=3)[0]",
        "return jax.lax.scan(one, scene, rules, unroll=3, reverse=True)[0]",
        "xland/test_xland_rules.py",
    ),
    "a pair reacts on one side of two": Mutation(
        "jaxenvs/xland/engine.py",
        "return beside, pair | other, held",
        "return beside, pair, held",
        "xland/test_xland_differential.py",
    ),
    "the opposite side is the same side": Mutation(
        "jaxenvs/xland/engine.py",
        "opposite = ((sides << 2) | (sides >> 2)) & 15",
        "opposite = sides",
        "xland/test_xland_differential.py",
    ),
    "the cell in front stays when a pair reacts": Mutation(
        "jaxenvs/xland/engine.py",
        "agent=_select(cleared, _FLOORS, agent),",
        "agent=agent,",
        "xland/test_xland_rules.py",
    ),
    "put down triggers what is near the agent": Mutation(
        "jaxenvs/xland/rulesets.py",
        "    Form(1, HELD),\n    Form(1, BESIDE_AGENT | _ALL),\n    Form(2, BESIDE_TILE | _ALL),\n"
        "    *_TILE_SIDES,\n    *_AGENT_SIDES,\n)\nGOALS",
        "    Form(1, HELD),\n    Form(1, BESIDE_AGENT | ON_PUT | _ALL),\n"
        "    Form(2, BESIDE_TILE | _ALL),\n    *_TILE_SIDES,\n    *_AGENT_SIDES,\n)\nGOALS",
        "xland/test_xland_rules.py",
    ),
    "the goal is judged before the rules": Mutation(
        "jaxenvs/xland/engine.py",
        "    scene = by_platform(ruleset.rules, scene, moment, cpu=_by_loop, default=_unrolled)\n"
        "    reached = _reached(ruleset.goal, scene, moment)",
        "    before, scene = scene, by_platform(\n"
        "        ruleset.rules, scene, moment, cpu=_by_loop, default=_unrolled\n    )\n"
        "    reached = _reached(ruleset.goal, before, moment)",
        "xland/test_xland_rules.py",
    ),
    "a place is judged as it was before the rules": Mutation(
        "jaxenvs/xland/engine.py",
        "changed = (index[number] == cell) & (flags == TILE_AT)",
        "changed = (index[number] == cell) & (flags == ON)",
        "xland/test_xland_differential.py",
    ),
    "a key of any colour fits": Mutation(
        "jaxenvs/xland/engine.py",
        "fits = pocket == (painted | np.uint32(Kind.KEY))",
        "fits = (pocket & 15) == Kind.KEY",
        "xland/test_xland_rules.py",
    ),
    "what lies to the left of the border is nothing": Mutation(
        "jaxenvs/xland/engine.py",
        "jnp.where(columns < 0, columns + width, columns)",
        "jnp.where(columns < 0, width, columns)",
        "xland/test_xland_differential.py",
    ),
    "a door is never in the last cell of its wall": Mutation(
        "jaxenvs/xland/layouts.py",
        "middle, count = size // 2, size // 2 - 1",
        "middle, count = size // 2, size // 2 - 2",
        "xland/test_xland_layouts.py",
    ),
    "the agent may begin on a thing": Mutation(
        "jaxenvs/xland/layouts.py",
        "agent = free[rank[-1]]",
        "agent = free[rank[0]]",
        "xland/test_xland_layouts.py",
    ),
    "a distractor makes what the task needs": Mutation(
        "jaxenvs/xland/generator.py",
        'it.at, _IN_LIST["made"], it.free)',
        'it.at, _IN_LIST["made"], jnp.asarray(_ALL))',
        "xland/test_tasks_sampling.py",
    ),
    "a goal tile is never the first of a pair": Mutation(
        "jaxenvs/xland/generator.py",
        'jnp.where(pair, _IN_LIST["left"], _IN_LIST["right"])',
        '_IN_LIST["right"]',
        "xland/test_tasks_sampling.py",
    ),
    "tasks in CPython's other order are taken from the lanes": Mutation(
        "jaxenvs/xland/exact.py",
        "if row >= 0 and not crowded[row]:",
        "if row >= 0:",
        "xland/test_tasks.py -k lanes",
    ),
    "a number out of range is not drawn again": Mutation(
        "jaxenvs/xland/exact.py",
        "(self.words[at] >> shift >= bound)",
        "(self.words[at] >> shift > bound)",
        "xland/test_tasks.py -k cpythons",
    ),
    "above is read as below": Mutation(
        "jaxenvs/xland/language.py",
        'a + b if name == "near" else b + a',
        "a + b",
        "xland/test_tasks_words.py",
    ),
    "a message names the line before": Mutation(
        "jaxenvs/xland/language.py",
        "enumerate(text.splitlines(), 1)",
        "enumerate(text.splitlines(), 0)",
        "xland/test_tasks_words.py",
    ),
    "what vanishes becomes a floor in words": Mutation(
        "jaxenvs/xland/words.py",
        "return vanishes if tile_name(made) == FLOOR else",
        "return vanishes if not made else",
        "xland/test_tasks_words.py",
    ),
    "a trial has one episode more": Mutation(
        "jaxenvs/xland/trials.py",
        "is_last = finished & (episode >= self.episodes)",
        "is_last = finished & (episode > self.episodes)",
        "xland/test_tasks_trials.py",
    ),
    "the sentence before the rule that fired stands out": Mutation(
        "jaxenvs/xland/facts.py",
        "rules = (1 + np.flatnonzero(fired[stated])).tolist()",
        "rules = np.flatnonzero(fired[stated]).tolist()",
        "xland/test_xland_effects.py",
    ),
    "a distinct number may come twice": Mutation(
        "jaxenvs/core/random.py",
        "passes = (value >= rank[earlier]) & (number > earlier)",
        "passes = (value > rank[earlier]) & (number > earlier)",
        "core/test_random.py",
    ),
    "a window reverses other tokens": Mutation(
        "jaxenvs/puzzles/topspin.py",
        "(first + self.window - 1 - inside)",
        "(first + self.window - inside)",
        "puzzles/test_topspin.py puzzles/test_every_puzzle.py -k topspin",
    ),
    "a drawn door has another colour": Mutation(
        "jaxenvs/babyai/opening.py",
        "plan.add_door(0, RIGHT, Colour.RED, locked=False)",
        "plan.add_door(0, RIGHT, Colour.BLUE, locked=False)",
        "core/test_golden.py -k OpenRedDoor",
    ),
    "truncation one step late": Mutation(
        "jaxenvs/core/env.py",
        "truncated = (after.time >= ",
        "truncated = (after.time > ",
        "test_contract.py -k time_limit",
    ),
    "an invalid action is not reported": Mutation(
        "jaxenvs/core/env.py",
        '"invalid_action": invalid}',
        '"invalid_action": jnp.zeros_like(invalid)}',
        "test_properties.py",
    ),
    "a truncated row goes on": Mutation(
        "jaxenvs/core/vector.py",
        "            ended = stepped.done\n",
        "            ended = stepped.terminated\n",
        "core/test_vector.py",
    ),
    "a step that begins anew has a reward": Mutation(
        "jaxenvs/core/vector.py",
        "reward=zero(stepped.reward)",
        "reward=stepped.reward",
        "core/test_vector.py",
    ),
    "fuzzing does not see a wrong clock": Mutation(
        "jaxenvs/testing/fuzzing.py",
        '"clock": time != state.time + 1',
        '"clock": time < state.time',
        "core/test_testing.py -k hostile_play",
    ),
    "PPO goes on beyond an end": Mutation(
        "baselines/core/returns.py",
        "    following = jnp.where(rollout.terminated, 0.0, following)\n",
        "",
        "baselines/test_ppo.py",
    ),
    "DQN values what follows an end": Mutation(
        "baselines/core/returns.py",
        "jnp.where(ended, 0.0, jnp.float32(gamma)",
        "jnp.where(ended, jnp.float32(gamma), jnp.float32(gamma)",
        "baselines/test_dqn.py",
    ),
    "R2D2 learns in its burn-in": Mutation(
        "baselines/off_policy/r2d2.py",
        "jax.lax.stop_gradient(memory), *rest",
        "memory, *rest",
        "baselines/test_r2d2.py -k burn_in",
    ),
    "R2D2 forgets before a true successor": Mutation(
        "baselines/off_policy/r2d2.py",
        "sequences.terminated | ~sequences.is_step",
        "sequences.terminated | sequences.truncated",
        "baselines/test_r2d2.py -k stored_memory",
    ),
    "a cloned policy takes its memory into the next episode": Mutation(
        "baselines/offline/data.py",
        "done=last[steps] | (steps < 0)",
        "done=steps < 0",
        "baselines/test_offline.py -k whole_episodes",
    ),
    "IQL bootstraps after the end": Mutation(
        "baselines/offline/iql.py",
        "settings.gamma * going * jax",
        "settings.gamma * jax",
        "baselines/test_offline.py -k slow_reference",
    ),
    "Dyna takes a history into the next episode": Mutation(
        "baselines/model_based/dyna.py",
        "jax.vmap(reset_memory)(history, first_history(learner, step.obs), step.done)",
        "history",
        "baselines/test_dyna.py -k true_steps",
    ),
    "Dyna begins an imagined episode again with an empty history": Mutation(
        "baselines/model_based/dyna_rollouts.py",
        "runner.world.start.history, step.done)",
        "first_history(learner, step.obs), step.done)",
        "baselines/test_dyna.py -k of_their_start",
    ),
    "PQN values illegal actions": Mutation(
        "baselines/on_policy/pqn.py",
        "values = legal(values, mask)",
        "values = values + 0",
        "baselines/test_masks.py",
    ),
    "the first row of a rule varies slowest": Mutation(
        "jaxenvs/puzzlescript/machine/groups.py",
        "    is_found, at = matches.next_tuple(p, able, counts, pointer, vertical)\n",
        "    mirrored = jax.tree.map(lambda leaf: leaf[::-1], pointer)\n"
        "    is_found, at = matches.next_tuple(p, able[::-1], counts[::-1], mirrored, vertical)\n"
        "    at = jax.tree.map(lambda leaf: leaf[::-1], at)\n",
        PLAYS,
    ),
    "a later match is not checked again": Mutation(
        "jaxenvs/puzzlescript/machine/groups.py",
        "able, simple = waiting & found,",
        "able, simple = waiting,",
        PLAYS,
    ),
    "a loop forgets the changes before it": Mutation(
        "jaxenvs/puzzlescript/machine/groups.py",
        "any_changed=turn.any_changed & ~jumps,",
        "any_changed=turn.any_changed & ~jumps & ~(target == tables.loop.all).any(),",
        PLAYS,
    ),
    # The direction in which a rule is scanned matters only in `random` groups: there, a random
    # number selects a match by its index in scan order.
    "a rule to the left is scanned from the right": Mutation(
        "jaxenvs/puzzlescript/machine/groups.py",
        "index, ranks = turn.target - before, []",
        "to_left = p.tables.direction[rule] == 2\n"
        "    index = jnp.where(to_left, total - 1 - turn.target, turn.target - before)\n"
        "    ranks = []",
        PLAYS,
    ),
    "a new object keeps the movement of its layer": Mutation(
        "jaxenvs/puzzlescript/expand.py",
        "_unique([_stationary(rule, names) for rule in concrete])",
        "_unique([*concrete])",
        PLAYS,
    ),
    "the first of equal rules stays": Mutation(
        "jaxenvs/puzzlescript/expand.py",
        "        for rule in reversed([*group]):\n",
        "        for rule in group:\n",
        PLAYS,
    ),
    "cancel does not end again": Mutation(
        "jaxenvs/puzzlescript/machine/ending.py",
        "is_blocked | (queue & sizes.CANCEL > 0)",
        "is_blocked | ((queue & sizes.CANCEL > 0) & (turn.agains == 0))",
        PLAYS,
    ),
    "a turn without change never wins": Mutation(
        "jaxenvs/puzzlescript/machine/ending.py",
        "won = ~cancelled & ~turn.is_restart &",
        "won = ~cancelled & ~turn.is_restart & modified &",
        PLAYS,
    ),
    "an arrival does not inherit a movement": Mutation(
        "jaxenvs/puzzlescript/machine/movement.py",
        "left = turn.moves & ~jnp.pad(movers",
        "left = turn.moves & occupied[:, None] & ~jnp.pad(movers",
        PLAYS,
    ),
    "the highest blocked layer bans its rigid group": Mutation(
        "jaxenvs/puzzlescript/machine/rigid.py",
        "    for layer in range(p.size.layers):",
        "    for layer in reversed(range(p.size.layers)):",
        RARE,
    ),
    "the first of two ellipses skips more cells first": Mutation(
        "jaxenvs/puzzlescript/machine/sizes.py",
        "for a in range(self.side) for b in range(self.side - a)",
        "for b in range(self.side) for a in range(self.side - b)",
        RARE,
    ),
    "late rules run before the movement": Mutation(
        "jaxenvs/puzzlescript/machine/groups.py",
        "end = jnp.where(turn.phase == RULES, p.tables.late.all, p.tables.end.all)",
        "end = p.tables.end.all",
        PLAYS,
    ),
    "sleep is discounted": Mutation(
        "baselines/core/forced.py",
        "jnp.where(forced, 1.0, gamma)",
        "jnp.where(forced, gamma, gamma)",
        "baselines/test_forced.py",
    ),
    "a sleep goes on after its episode": Mutation(
        "baselines/core/forced.py",
        "jnp.concatenate([here[1:], after[None]]) & ~done",
        "jnp.concatenate([here[1:], after[None]])",
        "baselines/test_forced.py",
    ),
    "the step after a rollout is never forced": Mutation(
        "baselines/core/forced.py",
        "jnp.concatenate([here[1:], after[None]])",
        "jnp.concatenate([here[1:], jnp.zeros_like(after)[None]])",
        "baselines/test_forced.py",
    ),
    "forced steps have a policy loss": Mutation(
        "baselines/core/forced.py",
        "policy = (~here).astype(jnp.float32)",
        "policy = jnp.ones_like(here).astype(jnp.float32)",
        "baselines/test_forced.py",
    ),
    "the first forced state of a rollout has no value loss": Mutation(
        "baselines/core/forced.py",
        "policy.at[valued].set(1.0)",
        "policy",
        "baselines/test_forced.py",
    ),
    "losses are divided by the number of steps, not of decisions": Mutation(
        "baselines/core/forced.py",
        "weight / jnp.maximum(mean, TINY)",
        "weight",
        "baselines/test_forced.py",
    ),
    "devices divide by their own number of decisions": Mutation(
        "baselines/core/forced.py",
        "devices.mean(jnp.stack([policy.mean(), value.mean()]))",
        "jnp.stack([policy.mean(), value.mean()])",
        "baselines/test_forced.py",
    ),
    "advantages are normalised over forced steps": Mutation(
        "baselines/on_policy/ppo.py",
        'getattr(batch[0].forced, "policy", None)',
        "None",
        "baselines/test_forced.py",
    ),
    "PQN learns from forced steps": Mutation(
        "baselines/on_policy/pqn.py",
        'getattr(rollout.forced, "value", ())',
        "()",
        "baselines/test_forced.py",
    ),
    "a replayed sleep loses its rewards": Mutation(
        "baselines/core/replay_buffer.py",
        "reward += jnp.where(pending, buffer.reward[every, here], 0.0)",
        "reward += 0.0",
        "baselines/test_forced.py",
    ),
    "an incomplete sleep is replayed": Mutation(
        "baselines/core/replay_buffer.py",
        "    return buffer.written - buffer.pending.astype(jnp.int32)\n",
        "    return buffer.written\n",
        "baselines/test_forced.py",
    ),
    "scores of levels count forced steps": Mutation(
        "baselines/core/level_scores.py",
        "~rollout.forced.here if rollout.forced else jnp.ones_like(done)",
        "jnp.ones_like(done)",
        "baselines/test_forced_curricula.py",
    ),
    "no step of a curriculum has a value loss in forced states": Mutation(
        "baselines/on_policy/curricula.py",
        "return self.rollout_steps // 2",
        "return 0",
        "baselines/test_forced_curricula.py",
    ),
    "predictions of the task learn from forced steps": Mutation(
        "baselines/on_policy/rl2.py",
        "forced.weighted(each, weight).mean()",
        "each.mean()",
        "baselines/test_forced_curricula.py",
    ),
    "targets of R2D2 discount a sleep": Mutation(
        "baselines/off_policy/r2d2.py",
        "of_decisions = (following,)",
        "of_decisions = ()",
        "baselines/test_forced_replay.py",
    ),
    "targets of R2D2 count ticks": Mutation(
        "baselines/off_policy/r2d2.py",
        "decisions=settings.n_step,",
        "decisions=None,",
        "baselines/test_forced_replay.py",
    ),
    "R2D2 learns from forced steps": Mutation(
        "baselines/off_policy/r2d2.py",
        "is_step & (~is_forced | is_last)[:, learned]",
        "is_step",
        "baselines/test_forced_replay.py",
    ),
    "MuZero replaces the policy of a decision in its sleep": Mutation(
        "baselines/model_based/muzero.py",
        "jnp.where(buffer.pending, settings.slots, slot)",
        "slot - buffer.pending.astype(jnp.int32)",
        "baselines/test_forced_replay.py",
    ),
    "MuZero learns from incomplete windows": Mutation(
        "baselines/model_based/muzero.py",
        "replay_buffer.holds_window(buffer, env, first, settings.reach)",
        "buffer.is_step[env, first % buffer.action.shape[1]]",
        "baselines/test_forced_replay.py",
    ),
    "AlphaZero's search discounts a sleep": Mutation(
        "jaxenvs/adapters/mctx.py",
        "jnp.where(is_forced(mask) & ~step.truncated, 1.0, factor)",
        "factor",
        "baselines/test_forced_planners.py",
    ),
    "AlphaZero's policy learns from forced steps": Mutation(
        "baselines/model_based/alphazero.py",
        'getattr(rollout.forced, "policy", ())',
        "()",
        "baselines/test_forced_planners.py",
    ),
    "DAgger labels forced states": Mutation(
        "baselines/offline/dagger.py",
        "jnp.where(forced.is_forced(mask), UNKNOWN, label)",
        "label",
        "baselines/test_forced_planners.py",
    ),
    "fragments of actors are normalised separately": Mutation(
        "baselines/ray/ppo.py",
        "forced.weights(rollout.forced.here, learner.devices)",
        "rollout.forced[2:]",
        "baselines/test_forced_ray.py",
    ),
    "V-trace standardises over forced steps": Mutation(
        "baselines/ray/ppo.py",
        "batch[0].forced.policy[orders] if batch[0].forced else None",
        "None",
        "baselines/test_forced_ray.py",
    ),
    "Ape-X sends old transitions again": Mutation(
        "baselines/ray/explorers.py",
        "is_new & (batch.weight > 0.0)",
        "batch.weight > 0.0",
        "baselines/test_forced_ray.py",
    ),
}


def broken_copy(mutation: Mutation, folder: Path) -> Path:
    """Copy the source tree and make the mutation in the copy.

    The copy comes first on Python's import path, so the tests import it.
    """
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT, symlinks=True)
    (tree / ".cache").mkdir()
    (tree / ".cache" / "jax").symlink_to(ROOT / ".cache" / "jax")
    file = tree / mutation.file
    text = file.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.file} must have this once, so that it breaks: {mutation.old}")
    file.write_text(text.replace(mutation.old, mutation.new))
    return tree


def first_failure(mutation: Mutation) -> tuple[str, float]:
    """Return the name of the first test that fails, or `survives`, and the seconds until then."""
    with tempfile.TemporaryDirectory() as folder:
        tree = broken_copy(mutation, Path(folder))
        environment = os.environ | {"PYTHONPATH": str(tree)}
        command = [sys.executable, "-m", "pytest", "-m", "not slow", "-q", "-x"]
        command += ["-p", "no:cacheprovider"]
        start = time.monotonic()
        done = subprocess.run(
            [*command, *mutation.tests.split()],
            cwd=tree / "tests", env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - start
    failed = FAILED.search(done.stdout)
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(failed):
        raise SystemExit(done.stdout + done.stderr)
    return failed[1] if failed else "survives", seconds


def main() -> int:
    """Print a row for each mutation; return 1 if one survives."""
    names = sys.argv[1:] or list(MUTATIONS)
    print("| mutation | file | first test that fails | seconds |\n| --- | --- | --- | --- |")
    survivors = 0
    for name in names:
        test, seconds = first_failure(MUTATIONS[name])
        survivors += test == "survives"
        print(f"| {name} | `{MUTATIONS[name].file}` | `{test}` | {seconds:.0f} |", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
