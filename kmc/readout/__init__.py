"""What a run says beyond its draws: expectations and the evidence from the frozen surrogate."""
