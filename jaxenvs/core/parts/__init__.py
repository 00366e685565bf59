"""Base classes of `Env` that define members with defaults, grouped by who uses them.

There is one for players, one for learners, one for batches and one for comparison with other
packages. `jaxenvs.core.env.Env` inherits from all of them, so every environment has their members,
and overrides the members for which it needs another value. Wrappers forward all members.
"""
