"""Averages over draws, corrected by a frozen surrogate's own: control variates."""
