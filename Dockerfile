# `docker build -t vdla . && docker run --rm -v "$PWD/demo:/demo" vdla` runs `make demo`; its files are in demo/.
FROM python:3.12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends make gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /vdla
COPY . .
RUN make PYTHON=python3 .venv/.installed-check
CMD ["make", "demo", "DEMO=/demo"]
