"""The journal: SQLite, the only durable truth for models, events, ids and waiting predictions.

Commands and their outcomes are plain values (`commands.py`). `rules.py` is the whole table of what a
call does by what is known of its id, as pure functions. `ids.py` has the two tables with exact counts: `ids`
(learned or expired, bounded by count and age) and `pending` (what waits, bounded by the spec). `transaction.py`
joins them with events, `event_codec.py` has the bytes of events, and `row_batch.py` the rows on their way into them.
`journal.py` is the file: it opens, reads, commits and removes. `writer.py` is the one thread that writes: one
transaction takes all that arrived while the last one was flushed, and single rows of one model that follow each other
are one event.

- A prediction is no event and gets no `seq`: it changes no model. Labels and expiries are events. An event's rows
  hold features, label, weight, and the score and probability given at prediction, so that a replay needs nothing
  but the events. `ids` and `pending` are written in the same transaction and are never replayed.
- There is one kind of event for each outcome (learned with its label, labelled later, discarded, expired as
  negative), so that the kind alone says how a payload reads. learn-many with waiting rows in between stays one
  event.
- A change of a model (its spec, its name, a new evaluation, a rollback) is an event with one seq and no row. Everything
  that a replay needs is in its payload: the whole spec, the whole snapshot.
- An id that is due when a call names it expires in that call's transaction, before the call is decided. The others
  expire by a sweep, once a second, in steps of 256 rows. An expired id stays expired: expiry is a row in the
  journal, not a comparison with the clock. Times are the plain clock, not its maximum so far: one reading from the
  far future would stop expiry for good.
- "The same features" is equality of what the model sees (`entries_of`), stored as a 128-bit digest. The digest
  outlives the features, which are removed from `pending` when the label comes.
- Each row has a checksum, because SQLite has none for its pages. Before anything is written at start, the
  structure of the file is checked (`integrity.py`), and the write-ahead log for commits behind a damaged place
  (`wal.py`), which SQLite would drop in silence.
- The journal asks for checkpoints itself. SQLite ignores one that fails: a page whose flush failed may count as
  clean in the kernel, and the log must not be reused then.
- Rows of one form stay one matrix (`column_events.py`); a replay needs no pyarrow.

Tables change only by a new migration (`migrations.py`). May import `settings`, `storage`, `telemetry` and
`errors`; not `http`.
"""
