"""Reader and writer of levels of BabyAI as text: MiniGrid's format, plus missions and marks."""
