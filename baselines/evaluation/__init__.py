"""Tools for trained runs: evaluate, compare, export and record runs, and plan with them."""
