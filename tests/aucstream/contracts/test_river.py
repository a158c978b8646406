"""River's own checks, and River's ways of using a classifier."""

from __future__ import annotations

import inspect

import pytest
from river import bandit, checks, datasets, ensemble, evaluate, metrics, model_selection, preprocessing

import aucstream
from aucstream import (
    OAM,
    PSAM,
    SOLAM,
    Arctan,
    AutoScale,
    BoundedNorm,
    Columns,
    Hashing,
    KMeansNystroem,
    Pipeline,
    Standardize,
    UnitNorm,
    Vocabulary,
)
from aucstream.features.maps.maps import MAPS
from aucstream.learners._base.capabilities import Capability
from aucstream.registry import LEARNERS, make

from .models import SHIPPED, VARIANTS, bare, can, learners
from .nonlinear import TanhSum
from .shortfalls import expect

MODELS = {
    **{variant: (lambda variant=variant: bare(variant)) for variant in VARIANTS},
    "Pipeline": Pipeline,
    "Pipeline standard+l2": lambda: Pipeline(Standardize(), UnitNorm(), OAM(capacity=20)),
    "Pipeline hashing": lambda: Pipeline(Hashing(10), AutoScale(), SOLAM(), calibration="none"),
    "Pipeline vocabulary": lambda: Pipeline(Vocabulary(capacity=50), BoundedNorm(), PSAM(capacity=20)),
    "Pipeline bare": lambda: Pipeline(SOLAM(norm="l1")),
    "Columns": lambda: Columns(ignore=["id_*"]),
    "Standardize": Standardize,
    "Standardize scale": lambda: Standardize(with_mean=False),
    "BoundedNorm": BoundedNorm,
    "UnitNorm": UnitNorm,
    "Arctan": Arctan,
    "Standardize that forgets": lambda: Standardize(half_life=50),
    "AutoScale that forgets": lambda: AutoScale(half_life=50),
    "AutoScale": AutoScale,
    **{
        f"{cls.__name__} {params}": (lambda cls=cls, params=params: cls(**params))
        for cls in MAPS.values()
        for params in cls._unit_test_params()
    },
    "Pipeline map": lambda: Pipeline(AutoScale(), KMeansNystroem(landmarks=6, warmup=20), PSAM(capacity=20)),
}


def _name(check) -> str:
    return getattr(check, "__name__", None) or check.func.__name__


@pytest.mark.parametrize("model", MODELS)
def test_all_checks_of_river_pass(model):
    made = MODELS[model]()
    assert made._unit_test_skips() == set()
    failed, ran = [], 0
    for check in checks.yield_checks(made):
        ran += 1
        try:
            check(made.clone())
        except Exception as error:
            failed.append(f"{_name(check)}: {type(error).__name__}: {error}")
    assert failed == []
    assert ran > 25


def test_every_exported_estimator_is_checked():
    exported = {TanhSum.__name__} | {
        name
        for name in aucstream.__all__
        if inspect.isclass(getattr(aucstream, name)) and hasattr(getattr(aucstream, name), "clone")
    }
    assert exported == {type(made()).__name__ for made in MODELS.values()}


def _phishing_auc(model, **kwargs) -> float:
    return evaluate.progressive_val_score(datasets.Phishing(), model, aucstream.metrics.AUC(), **kwargs).get()


@learners()
def test_a_learner_works_behind_the_scaler_of_river(name):
    model = preprocessing.StandardScaler() | make(name, {})
    coarse = evaluate.progressive_val_score(datasets.Phishing(), model.clone(), metrics.ROCAUC()).get()
    exact = _phishing_auc(model)
    assert exact > 0.93
    assert coarse == pytest.approx(exact, abs=0.03)


@learners(Capability.PIPELINE)
def test_the_default_pipeline_is_no_worse_than_the_scaler_of_river(name, request):
    auc = _phishing_auc(Pipeline(AutoScale(), make(name, {})))
    assert auc > 0.93
    expect(request, "as good as behind the scaler of River", name)
    assert auc > 0.94


@learners(Capability.PIPELINE)
def test_late_labels_are_counted_by_the_score_given_at_prediction(name):
    rows = list(datasets.Phishing().take(600))
    metric = aucstream.metrics.AUC()
    model = Pipeline(AutoScale(), make(name, {}))
    stamped = [({**x, "moment": i}, y) for i, (x, y) in enumerate(rows)]
    # the labels of each 50 rows come together, after the last of them was scored
    evaluate.progressive_val_score(stamped, model, metric, moment="moment", delay=lambda x, y: 49.5 - x["moment"] % 50)
    twin, by_hand = Pipeline(AutoScale(), make(name, {})), aucstream.metrics.AUC()
    for a in range(0, 600, 50):
        block = stamped[a : a + 50]
        given = [twin.predict_proba_one(x) for x, _ in block]
        for (x, y), p in zip(block, given, strict=True):
            by_hand.update(y, p)
            twin.learn_one(x, y)
    assert model.examples == 600
    assert metric.get() == pytest.approx(by_hand.get(), abs=1e-12)
    prompt = aucstream.metrics.AUC()
    evaluate.progressive_val_score(stamped, Pipeline(AutoScale(), make(name, {})), prompt)
    assert metric.get() != prompt.get()


@learners(Capability.PIPELINE)
def test_a_learner_works_inside_bagging_and_model_selection(name):
    bagging = ensemble.BaggingClassifier(preprocessing.StandardScaler() | make(name, {}), n_models=3, seed=1)
    assert _phishing_auc(bagging) > 0.9
    scalers = [AutoScale(), UnitNorm()] if can(name, Capability.STEPS_BEFORE) else [AutoScale(), AutoScale()]
    if can(name, Capability.RUNNING_SCALER):
        scalers = [AutoScale(), BoundedNorm(), UnitNorm(), Standardize()]
    halving = model_selection.SuccessiveHalvingClassifier(
        [Pipeline(scaler, make(name, {})) for scaler in scalers],
        metric=aucstream.metrics.AUC(),
        budget=2000,
    )
    assert _phishing_auc(halving) > 0.9
    assert isinstance(halving.best_model, Pipeline)


def test_step_sizes_are_searched_by_a_grid_of_clones():
    grid = [PSAM().clone({"lam": lam}) for lam in (1e-6, 1e-4, 1e-2)]
    assert [model.lam for model in grid] == [1e-6, 1e-4, 1e-2]
    search = model_selection.BanditClassifier(
        [preprocessing.StandardScaler() | model for model in grid],
        metric=metrics.Accuracy(),
        policy=bandit.EpsilonGreedy(epsilon=0.1, decay=0.001, burn_in=50, seed=1),
    )
    evaluate.progressive_val_score(datasets.Phishing().take(600), search, metrics.Accuracy())
    assert max(model["PSAM"].examples for model in search.models) > 200


def test_the_registry_and_the_exports_agree():
    for name in SHIPPED:
        entry = LEARNERS[name]
        assert type(make(name, {})) is getattr(aucstream, entry.class_name)
        assert name == entry.class_name.lower()
