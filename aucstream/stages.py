"""The stages of a pipeline at work: what moves when rows are learned, and how a row passes from one to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aucstream import snapshot
from aucstream.block import Block, Floats, Form, Ints
from aucstream.errors import InvalidParams
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.intake import array_block
from aucstream.features.maps.mapping import MOST_ROWS, Mapped
from aucstream.features.maps.maps import map_of
from aucstream.features.scaling.scalers import resolve_auto, scaling_of, with_half_life
from aucstream.features.scaling.scaling import RULES as COMPLETING_RULES
from aucstream.features.scaling.scaling import Scaling
from aucstream.learners._base.learner import Learner, shares_of
from aucstream.registry import learner_class

SCALING_BYTES = 64  # of a column in a scaler, about


@dataclass
class Stages:
    """All that moves, in one object, so that copies keep what the stages share.

    Attributes
    ----------
    encoder : Encoder
    scaling : Scaling
    learner : Learner
    resolved : str or None
        Name of the scaling; None where it is "auto", before the first row.
    mapping : Mapped or None
        Where there is a map; the scaling is then its own.
    """

    encoder: Encoder
    scaling: Scaling
    learner: Learner
    resolved: str | None
    mapping: Mapped | None = None

    def _resolve(self, form: Form) -> None:
        if self.resolved is None:
            self.resolved = resolve_auto(form, with_half_life("auto", self.scaling.half_life))
            rules = self.scaling.rules
            self.scaling = scaling_of(self.resolved, rules, completes=form is Form.CSR and rules >= COMPLETING_RULES)

    def adopt(self, encoder: Encoder) -> None:
        """Take columns from `encoder` from now on; no row was learned yet."""
        self.encoder = encoder
        if self.mapping is None:
            self.learner._adopt(encoder)
        else:
            self.mapping.encoder = encoder

    def share(self, encoder: Encoder) -> None:
        """Take columns from an equal encoder from now on."""
        self.encoder = encoder
        if self.mapping is None:
            self.learner._share(encoder)
        else:
            self.mapping.encoder = encoder

    # -- blocks --------------------------------------------------------------------------------------

    def learn(self, block: Block) -> Floats:
        """Learn a block row by row; return the score before each update, NaN where a row was skipped."""
        if not len(block):
            return np.empty(0)
        self._resolve(block.form)
        if self.mapping is not None:
            return self.mapping.learn(block, self.resolved)
        learner = self.learner
        if not self.scaling.scheduled:
            return learner._learn(block)
        scores = np.empty(len(block))
        start = 0
        while start < len(block):
            scaling = self.scaling  # another one after a row whose change was undone
            gap = scaling.rows_until_change()
            if gap > 1:
                stop = min(len(block), start + gap - 1)
                part = block.rows(start, stop) if stop - start < len(block) else block
                kinds = self.encoder.kinds
                whole = scaling.completed(part)
                values, norms = scaling.forward(whole, kinds)
                part_scores = learner._learn(whole.with_values(values))
                scaling.observe(part, norms, part_scores, kinds)
                scores[start : start + len(part)] = part_scores
                start += len(part)
            else:
                scores[start] = self._learn_at_change(block.rows(start, start + 1))
                start += 1
        return scores

    def _learn_at_change(self, row: Block) -> float:
        """Learn the one row before which the applied values change; undo all if its step is skipped."""
        score = float(self.score(row)[0])
        if not math.isfinite(score):
            return math.nan
        before = self.checkpoint()
        kinds = self.encoder.kinds
        self.learner._change_units(self.scaling.change(row, kinds))
        row = self.scaling.completed(row)
        values, _ = self.scaling.forward(row, kinds)
        if math.isnan(self.learner._learn(row.with_values(values))[0]):
            self.restore(before)
            return math.nan
        return score

    def score(self, block: Block) -> Floats:
        """Return the scores (n,) of a block."""
        if self.mapping is not None:
            return self.mapping.score(block)
        if not self.scaling.scheduled:
            return self.learner._score(block)
        block = self.scaling.completed(block)
        values, _ = self.scaling.forward(block, self.encoder.kinds)
        return self.learner._score(block.with_values(values))

    def look_at(self, X: Any) -> None:
        """Fit the map on the first rows of an array (n, d)."""
        if self.mapping is not None:
            n = min(X.shape[0], MOST_ROWS)
            block = array_block(self.encoder, X[:n], np.ones(n), np.ones(n), learn=True)
            self._resolve(block.form)
            self.mapping.look_at(block, self.resolved)

    def end_warmup(self) -> None:
        """Fit the map, and learn, on the rows kept so far; does nothing where none is kept."""
        if self.mapping is not None:
            self.mapping.end_warmup(self.resolved)

    # -- one row -------------------------------------------------------------------------------------

    def learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        """Learn one named row; return its score before, NaN where it was skipped."""
        scaling, encoder, learner = self.scaling, self.encoder, self.learner
        if self.mapping is not None:
            score = self.mapping.learn_row(idx, val, sign, weight)
            if score is not None:
                return score
        elif self.resolved is not None:
            if not scaling.scheduled:
                return learner._learn_row(idx, val, sign, weight)
            if encoder.width > len(scaling.columns):
                scaling.widen(encoder.width)
            z = scaling.take_row(idx, val, encoder.kinds)
            if z is not None:
                score = learner._learn_row(idx, z, sign, weight)
                if score != score:
                    scaling.give_back(idx, val)
                return score
        indptr = np.array([0, val.size], dtype=np.int64)
        row = Block(indptr, idx, val, np.array([sign]), np.array([weight]), encoder.width, Form.NAMED)
        return self.learn(row).item()

    def score_row(self, idx: Ints | None, val: Floats) -> float:
        """Return the score of one named row."""
        if self.mapping is not None:
            return self.mapping.score_row(idx, val)
        return self.learner._score_row(idx, self.scaled_row(idx, val) if self.scaling.scheduled else val)

    def scaled_row(self, idx: Ints | None, val: Floats) -> Floats:
        """Return the values of a named row as scaled; valid until the next call."""
        scaling, encoder = self.scaling, self.encoder
        if encoder.width > len(scaling.columns):
            scaling.widen(encoder.width)
        return scaling.forward_row(idx, val, encoder.kinds)[0]

    def explain(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return name to contribution of a row, see `Pipeline.explain_one`."""
        encoder, learner = self.encoder, self.learner
        if self.mapping is not None:
            raise InvalidParams("explain_one", "a model without a feature map", self.mapping.map.spec["kind"])
        if not self.scaling.scheduled:
            return learner.explain_one(x)
        names, columns, values = encoder.parts(x)
        shares = shares_of(columns, values)
        with encoder.scored(x) as (idx, val):
            return learner._explained(names, columns, shares, idx, self.scaled_row(idx, val))

    # -- columns that leave ----------------------------------------------------------------------------

    def forget_columns(self, columns: Ints) -> None:
        """Let columns (n,), ascending, be as if no row had had them: other names take them."""
        if self.mapping is not None:
            self.mapping.forget_columns(columns)
            return
        self.scaling.forget_columns(columns)
        self.learner._forget_columns(columns)

    # -- cost ----------------------------------------------------------------------------------------

    def bytes_at(self, width: int) -> int:
        """Return the bytes that one step may have to write when the encoder has so many columns.

        They grow with the time that the longest steps take: where arrays grow, units change, or a system is solved.
        """
        mapping, learner = self.mapping, self.learner
        if mapping is None:
            return learner._state_bytes(width) + SCALING_BYTES * (width if self.scaling.scheduled else 0)
        return learner._state_bytes(0) + mapping.bytes

    # -- copies --------------------------------------------------------------------------------------

    def checkpoint(self) -> tuple[Any, ...]:
        """Return a copy of all that learning changes but the names, for `restore`."""
        mark = None if self.mapping is None else self.mapping.mark()
        return self.scaling.copy(), self.learner._checkpoint(), self.resolved, mark

    def restore(self, checkpoint: tuple[Any, ...]) -> None:
        """Restore what `checkpoint` returned."""
        self.scaling, learner, self.resolved, mark = checkpoint
        self.learner._restore(learner)
        if self.mapping is not None:
            self.mapping.rewind(mark)

    def twin(self) -> Stages:
        """Return stages for scoring that have copies of all that learning writes, and share the rest."""
        learner = self.learner._twin()
        mapping = None if self.mapping is None else self.mapping.twin(learner)
        return Stages(self.encoder, self.scaling.copy(), learner, self.resolved, mapping)

    def state_dict(self, names: bool = True) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta) of the stages; where there is a map, or without `names`, without the encoder."""
        with_encoder = names or self.mapping is not None  # the learner behind a map has one of its own
        learner_arrays, learner_meta = self.learner.state_dict() if with_encoder else self.learner._own_state()
        scaling_arrays, scaling_meta = self.scaling.state_dict(0 if self.mapping else self.encoder.width)
        arrays = {f"learner.{name}": array for name, array in learner_arrays.items()}
        arrays |= {f"scaling.{name}": array for name, array in scaling_arrays.items()}
        meta = {"resolved": self.resolved, "learner": learner_meta, "scaling": scaling_meta}
        if self.mapping is not None:
            mapping_arrays, meta["map"] = self.mapping.state_dict()
            arrays |= {f"map.{name}": array for name, array in mapping_arrays.items()}
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any], encoder: Encoder | None = None) -> Self:
        """Return the stages that `state_dict` described; where there is a map, with this encoder."""

        def of(prefix: str) -> snapshot.Arrays:
            return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}

        learner_meta, map_meta = meta["learner"], meta.get("map")
        learner = learner_class(learner_meta["class"].lower()).from_state_dict(of("learner."), learner_meta)
        mapping = None
        if map_meta is None:
            encoder = learner._encoder
        else:
            assert encoder is not None
            mapping = Mapped(map_of(map_meta["spec"]), encoder, learner)
            mapping.restore(of("map."), map_meta)
        scaling = Scaling.from_state_dict(of("scaling."), meta["scaling"])
        return cls(encoder, scaling, learner, meta["resolved"], mapping)
