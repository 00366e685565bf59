"""Tools for trained runs: evaluate, compare, export, record and plan."""
