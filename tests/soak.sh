#!/usr/bin/env bash
# Damages pools by chance, scrubs them, and holds each report against what was changed (tests/soak/main.rs).
#
#   tests/soak.sh              10,000 rounds
#   tests/soak.sh 500          500 rounds
#   tests/soak.sh 0 3600       for an hour
#   tests/soak.sh 500 0 7      500 rounds, seed 7
#
# A round that was answered wrongly is shown with its number; ZCHECK_SOAK_ROUND=N (and the seed) repeats it and prints the report.
# The pools of fixtures/images and made ones are used, and those of ../shared/pools where that folder is there.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10000}
seconds=${2:-0}
export ZCHECK_SOAK_SEED=${3:-${ZCHECK_SOAK_SEED:-1}}
if [[ $rounds != 0 ]]; then export ZCHECK_SOAK=$rounds; else export ZCHECK_SOAK=1000000000; fi
if [[ $seconds != 0 ]]; then export ZCHECK_SOAK_SECONDS=$seconds; fi
exec cargo test --release -p zfs-scrub --test soak
