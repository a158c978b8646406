"""What every learner is, without mathematics: the public methods, parameters, state, growth, units, merging.

A learner's state is a NamedTuple of arrays, each annotated with its shape and its unit (`state.py`), and one
`ledger` vector that all learners have: row counts, the running row scale, the calibration. Growth, copies,
snapshots and changes of units follow from the declaration. Random draws come from a generator that is one word in
the state. One row takes the step's own entry instead of a block of one: the same compiled step, so the bits are
the same. May import `io`, `features`, `native`, `metrics`, `kernels` and below.
"""
