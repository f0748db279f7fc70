"""The accumulator: quadratic and linear forms of a basis, summed over weighted samples.

A form is additive over samples, so the same object works for batch fits, streams, folds and
workers: accumulate parts and add them, or subtract a fold from the whole.
"""

from kmc.forms.accumulate import accumulate, accumulate_folds, accumulate_folds_each
from kmc.forms.sums import FORMS, Forms, Lagged

__all__ = ["FORMS", "Forms", "Lagged", "accumulate", "accumulate_folds", "accumulate_folds_each"]
