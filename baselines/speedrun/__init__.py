"""Speedruns: train to a fixed bar, stop, and check the policy in the original package.

Command `jaxenvs speedrun`. `entries.py` is the table of tasks; docs/speedruns.md has the rules.
"""
