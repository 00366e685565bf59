"""Tables of shortest plans: the number proven for each id, and BabyAI's bot compared with them."""

from typing import Any

from .registry import RESULTS, of_rows, table
from .text import Column, Table, fixed, of, tabulated, whole

OPTIMA: dict[str, Column] = {
    "id": lambda row: f"`{row['env_id']}`",
    "levels": of("levels", whole),
    "proven": of("proven", whole),
    "without a plan": of("unsolvable", whole),
    "fewest steps": lambda row: f"{row['fewest']} to {row['most']}" if row["fewest"] else "",
    "seconds": of("seconds"),
}
BOT: dict[str, Column] = {
    "id": lambda row: f"`{row['env_id']}`",
    "levels": of("levels", whole),
    "bot succeeded": of("bot_succeeded", whole),
    "optimum proven": of("proven", whole),
    "both": of("compared", whole),
    "optimum, mean steps": of("optimum", fixed(1)),
    "bot, mean steps": of("bot", fixed(1)),
    "equal": of("equal", whole),
}
of_rows("bot", f"{RESULTS}/bot.json", BOT)
SLOW = 100  # seconds; the page lists ids whose search took longer


@table("optima", f"{RESULTS}/optima.json")
def optima(found: Any) -> Table:
    """Build a table of the ids with a slow search, or with a level whose optimum is not proven.

    A level's optimum is proven if the search proves that its plan is the shortest, or that no plan
    exists. The note below the table counts all measured ids, and those with a proof for all levels.
    """
    rows = found["rows"]
    whole_ids = sum(row["proven"] == row["levels"] for row in rows)
    shown = [row for row in rows if row["proven"] < row["levels"] or row["seconds"] > SLOW]
    columns = {**OPTIMA, "states per level": of("states", whole)}
    count = max(row["levels"] for row in rows)
    note = (
        f"All {count} levels are proven for {whole_ids} of {len(rows)} measured ids. The table "
        f"lists the other ids, and those whose search took over {SLOW} seconds "
        f"({found['date'][:10]}, one core of an {found['processor']} next to other jobs, Python "
        f"{found['versions']['python']}, jax {found['versions']['jax']}, with compilation)."
    )
    return tabulated(shown, columns)._replace(note=note)
