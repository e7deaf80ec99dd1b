# expctl in a small image. Untried: no Docker was at hand when it was written.
#
#   docker build -t expctl .
#   docker run --rm -v "$PWD:/study" expctl run experiment.yaml

FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN wheel=$(packaging/wheel "$(rustc --print host-tuple)") \
    && tar -xzf "$(packaging/tarball "$wheel")" --strip-components=1 --one-top-level=/opt/expctl

FROM debian:bookworm-slim
COPY --from=build /opt/expctl /usr/local
WORKDIR /study
ENTRYPOINT ["expctl"]
