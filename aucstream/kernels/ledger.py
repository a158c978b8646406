"""What every learner keeps beside its own state: one float64 vector, read and written by position.

Counts of rows are kept as float64, exact up to 2^53.

A model keeps the rules that it began with. `RULES` says which: an older version's ledger ends before it, and is filled
up with 0.
"""

from __future__ import annotations

# rows and positives as they came, each once whatever its weight
ROWS = 0
POSITIVES = 1
# running mean square of the row norm, algorithms of `row_scale`
KAPPA2 = 2
KAPPA_ROWS = 3
# online calibration, algorithms of `calibration`
CAL_ON = 4  # 1 once both classes were seen
CAL_SLOPE = 5  # per CAL_RMS
CAL_INTERCEPT = 6
CAL_H11 = 7
CAL_H12 = 8
CAL_H22 = 9
CAL_RMS2 = 10
CAL_ROWS = 11
CAL_POSITIVE = 12  # weighted class counts
CAL_NEGATIVE = 13
LINE_SIZE = 14  # of a ledger that calibrates and does nothing else
# of the calibration, and of when moments are solved for: one of the three below
RULES = 14
SIZE = 15

FIRST_RULES = 0.0  # those of the first version
NEW_RULES = 1.0  # those of a new model
MIXTURE_RULES = 2.0  # those of a new model whose scores are log odds, see `mixture`
