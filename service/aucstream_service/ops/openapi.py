"""Write the OpenAPI document: `python -m aucstream_service.ops.openapi > openapi/openapi.json`."""

from __future__ import annotations

import json
import sys

from aucstream_service.app import create_app
from aucstream_service.settings import Settings


def document() -> str:
    """Return the document as one deterministic text."""
    app = create_app(Settings.model_construct())
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False, sort_keys=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
