# syntax=docker/dockerfile:1

FROM python:3.11-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
RUN python -m venv /opt/aucstream/venv
COPY requirements.lock ./
RUN /opt/aucstream/venv/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY aucstream aucstream
COPY service/aucstream_service service/aucstream_service
RUN /opt/aucstream/venv/bin/pip install --no-deps .
# Kernels are compiled after the last copy, for any CPU. numba knows its sources by modification time:
# whole seconds survive the image's layers.
ENV NUMBA_CPU_NAME=generic AUCSTREAM_CACHE_DIR=/opt/aucstream/cache
RUN find /opt/aucstream/venv/lib -path '*/site-packages/aucstream*/*.py' -exec touch -d @1700000000 {} + \
    && /opt/aucstream/venv/bin/aucstream warm \
    && chmod -R a-w /opt/aucstream/cache

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="aucstream" org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=build /opt/aucstream /opt/aucstream
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin aucstream \
    && mkdir /data && chown 10001:10001 /data
USER 10001:10001
WORKDIR /
ENV PATH=/opt/aucstream/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    NUMBA_CPU_NAME=generic \
    AUCSTREAM_CACHE_DIR=/tmp/aucstream-cache \
    AUCSTREAM_HOST=0.0.0.0 AUCSTREAM_PORT=8000 AUCSTREAM_DATA_DIR=/data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=4s --start-period=60s --retries=3 CMD ["python", "-m", "aucstream_service.ops.health"]
ENTRYPOINT ["python", "-m", "aucstream_service.ops.container"]
