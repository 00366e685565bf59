"""What to do with trained runs: evaluate, compare, export, record, plan."""
