"""Reader, writer and random edits of BabyAI's levels as text, and a parser of their missions."""
