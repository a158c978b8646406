"""What the OpenAPI document says: bodies, answers, problems and their examples.

`openapi/openapi.json` is written from here by `python -m aucstream_service.ops.openapi`. May import `models` and
below.
"""
