"""Estimators of the score function ∇ log p from samples."""
