"""Parts of `Env` with defaults, one for each kind of reader: players, learners, batches, upstream.

`jaxenvs.core.env.Env` inherits them, so their members are attributes of every environment, and an
environment overrides those in which it differs. Wrappers forward all of them.
"""
