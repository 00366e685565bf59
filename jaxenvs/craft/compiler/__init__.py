"""Barriers for XLA: they make XLA compute values only once, and do not change the values.

Reason: on a CPU, XLA fuses a chain of arithmetic into each of its consumers (see `core.settle`). A
step of Craft is such a chain: the move of each mob depends on the moves of earlier mobs, and all
values end in a few packed words. Unless barriers interrupt the chain, XLA computes the chain's
beginning again for nearly every result.

* `once`: barriers in the middle of a rule. Rules call these functions; read `once(x)` as `x`.
* `edges`: barriers after stages of a step, listed in one table for Classic and one for the full
  game.
* `barriers`: barriers that the views, world generation, the map and the pictures call.

Code for one platform is also in `spots` (the view), `reach` (cells where mobs may appear), `ground`
(writes to the map), and in calls of `by_platform` in `state`, `sight`, `plants`, `terrain`,
`floors`, `full_sight` and `look/pictures`. These modules call no barrier of XLA directly.

Measured on 2026-11-26: jax 0.10.2, two busy AMD EPYC cores, a scan of 16 steps with random actions
in 256 environments; CPU time, best of 40 runs (of 12 in the table's last row). Two processes with
the same program took 2.4 and 3.1 us, so smaller differences are noise:

| Craft-Ids-v0 | compile, s | instructions | us per environment step |
| --- | --- | --- | --- |
| with all barriers | 13 | 48,583 | 2.4 |
| without `settle("deed")` | 13 | 49,756 | 2.4 |
| without `hold("row", "column")` | 14 | 48,457 | 3.1 |
| without `repack` | 14 | 64,762 | 4.7 |
| without edges | 14 | 65,906 | 5.5 |
| without `once` and edges | 83 | 178,441 | 576 |

Craft-Classic-Ids-v0 takes 1.0 us with or without its edges, and 331 us without `once` and edges.
"""
