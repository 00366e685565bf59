"""Tables about shortest plans: proofs by id, and BabyAI's bot compared with the optimum."""

from .registry import RESULTS, of_rows
from .text import Column, fixed, of, whole

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
