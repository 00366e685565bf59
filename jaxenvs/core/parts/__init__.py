"""Base classes of `Env` that define members with defaults, grouped by who uses them.

There is one for players, one for learners, one for batches and one for comparison with other
packages. `jaxenvs.core.env.Env` inherits from all of them, so every environment has their members
and overrides those in which it differs. Wrappers forward all of them.
"""
