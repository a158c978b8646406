"""A typed client of the HTTP service, for threads and for event loops; needs the extra `client`.

from aucstream.client import Client

with Client("http://127.0.0.1:8000") as client:
    client.create("clicks", "psam")
    client.learn_one("clicks", {"ad": "a17", "price": 0.8}, True)
    client.predict_one("clicks", {"ad": "a17", "price": 0.7}).probability
"""

from __future__ import annotations

from aucstream.errors import pip_install

try:
    import httpx as _httpx  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"aucstream.client needs httpx: {pip_install('client')}", name="httpx") from error

from aucstream.answers import (
    AucSummary,
    CalibrationSummary,
    CutSummary,
    DriftSummary,
    Evaluation,
    ExportedEvent,
    ExportedPending,
    Figures,
    Member,
    ModelEvent,
    Predicted,
    Prediction,
    Roc,
    RolledBack,
    RowError,
    Snapshot,
    Weight,
    WindowSummary,
)
from aucstream.client.aio import AsyncClient
from aucstream.client.answers import Description, Learned, LearnedMany
from aucstream.client.problems import (
    AlreadyLabelled,
    BadAnswer,
    Busy,
    ClientClosed,
    ClientError,
    Conflict,
    ConnectionFailed,
    Expired,
    FeaturesConflict,
    FixedSetting,
    Forbidden,
    InvalidRequest,
    JournalUnavailable,
    LabelConflict,
    LabelExpiredNegative,
    ModelFaulted,
    ModelNotFound,
    NameTaken,
    NotAllowed,
    NotFound,
    NotReady,
    Overloaded,
    PendingFull,
    PreconditionFailed,
    Problem,
    QueueFull,
    RateLimited,
    ServiceFault,
    SnapshotNotFound,
    SpecConflict,
    TooManyModels,
    TooManyStreams,
    Unauthorized,
    Unavailable,
    UnknownId,
    WeightsUnavailable,
)
from aucstream.client.retry import Retry
from aucstream.client.rows import Example
from aucstream.client.sync import Client

__all__ = [
    "AlreadyLabelled",
    "AsyncClient",
    "AucSummary",
    "BadAnswer",
    "Busy",
    "CalibrationSummary",
    "Client",
    "ClientClosed",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "CutSummary",
    "Description",
    "DriftSummary",
    "Evaluation",
    "Example",
    "Expired",
    "ExportedEvent",
    "ExportedPending",
    "FeaturesConflict",
    "Figures",
    "FixedSetting",
    "Forbidden",
    "InvalidRequest",
    "JournalUnavailable",
    "LabelConflict",
    "LabelExpiredNegative",
    "Learned",
    "LearnedMany",
    "Member",
    "ModelEvent",
    "ModelFaulted",
    "ModelNotFound",
    "NameTaken",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "Overloaded",
    "PendingFull",
    "PreconditionFailed",
    "Predicted",
    "Prediction",
    "Problem",
    "QueueFull",
    "RateLimited",
    "Retry",
    "Roc",
    "RolledBack",
    "RowError",
    "ServiceFault",
    "Snapshot",
    "SnapshotNotFound",
    "SpecConflict",
    "TooManyModels",
    "TooManyStreams",
    "Unauthorized",
    "Unavailable",
    "UnknownId",
    "Weight",
    "WeightsUnavailable",
    "WindowSummary",
]
