"""Models in memory: their order of events, evaluation, snapshots, recovery.

- Rows are applied in slices, and predictions are answered between slices. Evaluation and log loss count the score
  and the probability that were answered, not what today's weights give.
- Whether a step is finite is known when its event is applied, after the commit. The ids of skipped rows are
  released by a command of their own, queued before anyone is told of the skip. A replay finds the same rows and
  releases them again, and no snapshot that holds their event is written before the release is. Duplicates that
  were decided in between are answered when what they repeat is applied, and share its outcome.
- Recovery takes the newest readable snapshot and replays the events after it. Damage of one model's rows sets that
  model aside. Damage of what all models share refuses the start.
- Records leave the journal early (on request, by age) only through `retention.py`, after a snapshot that was read
  again.

`host.py` owns models and the order in which rows are applied. `registry.py` finds models and says what serves;
`recovery.py` starts, `snapshotter.py` writes snapshots, `expiry.py` sweeps. `queued.py` is what waits to be applied.

May import `bodies`, `journal`, `http`, `settings` and below.
"""
