"""Parameters: their bounds, what may change later, seeds."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from aucstream.constraints import Ge, Gt, Le, Lt, rules_of
from aucstream.errors import InvalidParams, UnknownLearner
from aucstream.learners._base.capabilities import Capability
from aucstream.registry import learner_class, make

from .models import (
    CLASSES,
    bare,
    can,
    forms_of,
    learn_dicts,
    learners,
    state,
    stream,
    variants,
)

PARAMETERS = [(name, param) for name, cls in CLASSES.items() for param in rules_of(cls)]


@pytest.mark.parametrize(("name", "param"), PARAMETERS)
def test_a_value_out_of_bounds_is_refused_in_one_sentence(name, param):
    rule = rules_of(learner_class(name))[param]
    wrong = [math.nan, -math.inf, object(), [1], b"1", 1j]
    wrong += [] if rule.optional else [None]
    wrong += [] if rule.infinite else [math.inf]
    wrong += ["spam", "1"] if rule.kind is not str or rule.words else []
    wrong += [True] if rule.kind in (int, float) else []
    wrong += [0.5] if rule.kind is int else []
    for bound in rule.bounds:
        wrong += {Gt: [bound.bound, bound.bound - 1], Ge: [bound.bound - 1], Le: [bound.bound + 1], Lt: [bound.bound]}[
            type(bound)
        ]
    for value in wrong:
        for made in (lambda v=value: make(name, {param: v}), lambda v=value: learner_class(name)(**{param: v})):
            with pytest.raises(InvalidParams) as caught:
                made()
            assert str(caught.value).startswith(
                f"{learner_class(name).__name__}.{param}: expected {rule.expected()}, got "
            )


@learners()
def test_parameters_are_keywords_with_the_values_they_were_given(name):
    cls = learner_class(name)
    assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(cls).parameters.values())
    with pytest.raises(InvalidParams, match="spam"):
        make(name, {"spam": 1})
    for params in cls._unit_test_params():
        model = cls(**params)
        assert all(getattr(model, key) == value for key, value in params.items())
    for key, rule in rules_of(cls).items():
        if rule.kind is float:
            value = next(v for v in (0.75, 1.5) if all(bound.holds(v) for bound in rule.bounds))
            assert make(name, {key: np.float32(value)})._params()[key] == value


def test_an_unknown_learner_is_refused_with_the_near_miss():
    with pytest.raises(UnknownLearner, match="solam"):
        make("solm", {})


@learners()
def test_only_step_sizes_and_penalties_may_change_and_are_checked_again(name):
    model = make(name, {})
    rules = rules_of(type(model))
    assert model._mutable_attributes
    assert model._mutable_attributes < set(rules)
    for key in rules:
        if key in model._mutable_attributes:
            before = getattr(model, key)
            for change in (lambda v, key=key: setattr(model, key, v), lambda v, key=key: model.mutate({key: v})):
                with pytest.raises(InvalidParams, match=f"{type(model).__name__}.{key}"):
                    change(-1.0)
                assert getattr(model, key) == before
                change(0.75)
                assert getattr(model, key) == 0.75
                setattr(model, key, before)
        else:
            with pytest.raises(AttributeError, match=key):
                setattr(model, key, getattr(model, key))
            with pytest.raises(ValueError, match=key):
                model.mutate({key: getattr(model, key)})


@learners()
def test_a_changed_step_size_counts_from_the_next_row_and_survives_a_load(name):
    from aucstream import from_bytes

    X, y = stream(200)
    for key in learner_class(name)._steps_and_penalties:
        same, other = learn_dicts(bare(name), X[:100], y[:100]), learn_dicts(bare(name), X[:100], y[:100])
        setattr(other, key, 0.004)
        assert other.score_one({"c0": 1.0}) == pytest.approx(same.score_one({"c0": 1.0}), rel=1e-12)
        resumed = from_bytes(other.to_bytes())
        assert getattr(resumed, key) == 0.004
        learn_dicts(same, X[100:], y[100:])
        learn_dicts(other, X[100:], y[100:])
        learn_dicts(resumed, X[100:], y[100:])
        assert state(resumed) == state(other)
        if key not in ("t0", "n", "beta1", "eta_min"):  # beta1 needs another penalty; the step is still above eta_min
            assert same.score_one({"c0": 1.0}) != other.score_one({"c0": 1.0})


@variants()
def test_the_same_seed_gives_the_same_run_and_none_another_each_time(variant):
    X, y = stream(600)
    model = bare(variant)
    assert state(learn_dicts(bare(variant), X, y)) == state(learn_dicts(bare(variant), X, y))
    if not model._random:
        assert "seed" not in rules_of(type(model))
        return
    assert model._params()["seed"] == 0
    for form in forms_of(variant):
        unseeded = form(variant, seed=None)
        assert unseeded._is_stochastic
        clones = [unseeded.clone() for _ in range(3)]
        assert len({clone._seed for clone in [unseeded, *clones]}) == 4
        from aucstream import from_bytes

        resumed = from_bytes(unseeded.to_bytes())
        assert resumed._seed == unseeded._seed
        assert state(learn_dicts(resumed, X, y)) == state(learn_dicts(unseeded, X, y))
        kept = clones[0].clone(include_attributes=True)
        assert state(learn_dicts(kept, X, y)) == state(learn_dicts(clones[0], X, y))
        assert not form(variant)._is_stochastic


def memory(model) -> int:
    """Return the floats that a learner keeps for ten features, and the rows that it may buffer."""
    model.partial_fit(np.eye(10)[[0, 9]], [True, False])
    return model._slots() + sum(array.size for array in model._arrays)


@variants()
def test_a_parameter_that_memory_grows_with_is_declared_as_a_size(variant):
    model = bare(variant)
    sizes = []
    for param, rule in rules_of(type(model)).items():
        value = getattr(model, param)
        if rule.kind is int and value is not None and param != "seed":
            grows = memory(bare(variant, **{param: 2 * value + 1})) > memory(bare(variant))
            counts = rule.size is not None and (
                not rule.size.where or getattr(model, rule.size.where[0]) == rule.size.where[1]
            )
            assert counts or not grows, param
            sizes += [param] * grows
    assert sizes or not model._slots() or can(variant, Capability.FIXED_BUFFERS)


SIZES = [
    (name, param)
    for name, param in PARAMETERS
    if rules_of(CLASSES[name])[param].size is not None and (name, param) != ("spdam", "batch")  # of rows that are there
]
COUNTS = [(name, param) for name, param in PARAMETERS if rules_of(CLASSES[name])[param].kind is int and param != "seed"]


def learned_with(name, param, value):
    size = rules_of(CLASSES[name])[param].size
    where = [size.where] if size is not None and size.where is not None else []
    make(name, {param: value, **dict(where)}).partial_fit(*stream(20))


@pytest.mark.parametrize("value", [10**13, 10**18, 10**30])
@pytest.mark.parametrize(("name", "param"), SIZES)
def test_a_size_that_memory_has_no_room_for_is_refused_by_name(name, param, value):
    with pytest.raises(InvalidParams) as caught:
        learned_with(name, param, value)
    assert str(caught.value).startswith(f"{CLASSES[name].__name__}.{param}: expected ")
    assert str(value) in str(caught.value)


@pytest.mark.parametrize("value", [2**63, 10**30])
@pytest.mark.parametrize(("name", "param"), COUNTS)
def test_a_count_that_no_kernel_takes_is_refused_by_name_or_stands_for_never(name, param, value):
    message = ""
    try:
        learned_with(name, param, value)
    except InvalidParams as error:
        message = str(error)
    assert not message or (message.startswith(f"{CLASSES[name].__name__}.{param}: expected ") and str(value) in message)
