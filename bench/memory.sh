#!/bin/sh
# Peak memory of a scrub as the pool grows, within a budget. See bench/README.md. Usage: bench/memory.sh [BUDGET_MIB]
set -eu

die() {
    echo "bench/memory.sh: $*" >&2
    exit 2
}

budget=${1:-256}
case $budget in
'' | *[!0-9]* | 0*) die "BUDGET_MIB is a number from 1 on, without leading zeros" ;;
esac
threads=${ZCHECK_THREADS:-2}
# What the program may take beside what it was asked to keep to, and what counts as flat: a pool of 1 million blocks
# fills the queue hardly twice, so that not all of its batches live at once.
beside=64
flat=32
root=$(cd "$(dirname "$0")/.." && pwd)
(cd "$root" && cargo build --release --quiet --bin zcheck)
(cd "$root" && cargo build --release --quiet -p fixtures --example make-big-pool)
target=${CARGO_TARGET_DIR:-$root/target}/release
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# peak COMMAND...: runs it with its output in a file; leaves its status, seconds and peak KiB in variables.
peak() {
    began=$(date +%s.%N)
    if /usr/bin/time -f %M true 2>/dev/null; then
        status=0
        /usr/bin/time -q -f %M -o "$scratch/peak" "$@" >"$scratch/report" || status=$?
        kib=$(tail -n 1 "$scratch/peak")
    else
        # Without GNU time: the high-water mark that the kernel keeps, read until the process ends.
        "$@" >"$scratch/report" &
        child=$!
        kib=0
        while now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$child/status" 2>/dev/null) && [ -n "$now" ]; do
            kib=$now
            sleep 0.05
        done
        status=0
        wait "$child" || status=$?
    fi
    seconds=$(echo "$(date +%s.%N) $began" | awk '{ printf "%.1f", $1 - $2 }')
}

number() {
    sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}\$/\1/p" "$scratch/report" | tail -n 1
}

# Many things of a report have blocks; those of the pool stand above its gang blocks.
blocks() {
    sed -n -e '/"blocks":/h' -e '/"gang_blocks":/{x;s/[^0-9]//g;p;}' "$scratch/report" | tail -n 1
}

failed=0
first=

# row NAME MAKER_OPTION...: makes a pool, scrubs it, prints a row, throws the pool away.
row() {
    name=$1
    shift
    mkdir "$scratch/pool"
    "$target/examples/make-big-pool" "$scratch/pool" "$@" >/dev/null
    peak "$target/zcheck" scrub --memory "${budget}M" --threads "$threads" --json "$scratch/pool"
    mib=$((kib / 1024))
    verdict=ok
    [ "$status" -eq 0 ] || verdict="status $status"
    [ "$mib" -le $((budget + beside)) ] || verdict="over $((budget + beside)) MiB"
    [ -z "$first" ] || [ "$mib" -le $((first + flat)) ] || [ "$verdict" != ok ] || verdict="grows"
    [ "$verdict" = ok ] || failed=1
    printf '| %-38s | %12s | %12s | %7s | %8s | %s |\n' "$name" "$(blocks)" "$(number dedup_saved_bytes)" \
        "$seconds" "$mib" "$verdict"
    rm -rf "$scratch/pool"
}

echo "date    $(date -u +%Y-%m-%d)"
echo "cpu     $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
echo "zcheck  $("$target/zcheck" --version), $(rustc --version), $threads threads, --memory ${budget}M"
echo
printf '| %-38s | %12s | %12s | %7s | %8s | %s |\n' pool blocks 'saved bytes' 'wall s' 'peak MiB' verdict
printf '| %s | %s | %s | %s | %s | %s |\n' "$(printf '%38s' '' | tr ' ' -)" -----------: -----------: ------: -------: ---
row "1 M blocks of 512 bytes" --blocks 1000000
first=$mib
row "10 M blocks of 512 bytes" --blocks 10000000
row "10 M blocks of 512 bytes, 1000 files" --blocks 10000000 --files 1000
row "1 M blocks of 4 KiB" --blocks 1000000 --block-bytes 4096
# Tables of what is shared take a part of the budget that the first pool does not need.
first=
row "5 M references to 2.5 M blocks (dedup)" --blocks 5000000 --dedup 2
exit "$failed"
