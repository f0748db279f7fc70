"""Results of the frozen surrogate beyond draws: expectations, evidence and approximate draws."""
