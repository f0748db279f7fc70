"""Results beyond the draws: expectations, evidence and approximate draws, from the frozen surrogate."""
