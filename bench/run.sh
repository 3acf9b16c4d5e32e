#!/usr/bin/env bash
# Speed and memory of a whole scrub, beside the floor (cat) and the other tool (zdb), on one warm image.
# See bench/README.md. Usage: bench/run.sh IMAGE_DIR POOL [ROUNDS]
set -euo pipefail

die() {
    echo "bench/run.sh: $*" >&2
    exit 2
}

[[ $# -ge 2 ]] || die "usage: bench/run.sh IMAGE_DIR POOL [ROUNDS]"
dir=$1 pool=$2 rounds=${3:-5}
[[ -d $dir ]] || die "$dir is not a directory"
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "ROUNDS is a number from 1 on"
threads=${ZCHECK_THREADS:-2}
root=$(cd "$(dirname "$0")/.." && pwd)
zcheck=${ZCHECK:-$root/target/release/zcheck}
if [[ -z ${ZCHECK:-} ]]; then
    (cd "$root" && cargo build --release --quiet --bin zcheck)
fi
zdb=$(PATH=$PATH:/usr/sbin:/sbin command -v zdb || true)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measure FILE COMMAND...: appends "seconds CPU-seconds KiB status" to FILE. Output of the command is thrown away.
measure() {
    local file=$1
    shift
    if /usr/bin/time -f %e true 2>/dev/null; then
        /usr/bin/time -q -f '%e %U %S %M %x' -o "$scratch/one" "$@" >/dev/null 2>&1 || true
        awk '{ printf "%.2f %.2f %d %d\n", $1, $2 + $3, $4, $5 }' "$scratch/one" >>"$file"
    elif command -v python3 >/dev/null; then
        python3 - "$@" >>"$file" <<'PYTHON'
import resource, subprocess, sys, time
began = time.monotonic()
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{time.monotonic() - began:.2f} {used.ru_utime + used.ru_stime:.2f} {used.ru_maxrss} {status}")
PYTHON
    else
        die "needs GNU time (/usr/bin/time) or python3"
    fi
}

# median FILE COLUMN
median() {
    cut -d' ' -f"$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

run_cat() { measure "$scratch/cat" cat "${images[@]}"; }
run_zcheck() { measure "$scratch/zcheck" "$zcheck" scrub --threads "$threads" --pool "$pool" --json "$dir"; }
# All devices but the first: what a missing member costs.
run_without() { measure "$scratch/without" "$zcheck" scrub --threads "$threads" --pool "$pool" --json "${images[@]:1}"; }
run_zdb() { measure "$scratch/zdb" "$zdb" -e -p "$dir" -bcc "$pool"; }

mapfile -d '' images < <(find -L "$dir" -maxdepth 1 \( -type f -o -type b \) -print0 | sort -z)
[[ ${#images[@]} -gt 0 ]] || die "no files or block devices in $dir"
cat "${images[@]}" >/dev/null # warms the page cache

# The tools take turns, so that a busy neighbour slows all of them.
for ((round = 1; round <= rounds; round++)); do
    run_cat
    run_zcheck
    [[ ${#images[@]} -eq 1 ]] || run_without
    [[ -z $zdb ]] || run_zdb
done

# grep finds nothing in a report of another form: then the column stays empty.
report=$("$zcheck" scrub --threads "$threads" --pool "$pool" --json "$dir" || true)
bytes=$(sed -n 's/^ *"bytes_read": \([0-9]*\),\{0,1\}$/\1/p' <<<"$report" | tail -1)
[[ -n $bytes ]] || die "zcheck gave no report: $zcheck scrub --pool $pool $dir"

echo "date    $(date -u +%Y-%m-%d)"
echo "cpu     $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
echo "memory  $(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)"
echo "kernel  $(uname -sr)"
echo "zcheck  $("$zcheck" --version), $(rustc --version 2>/dev/null || echo 'rustc not found'), $threads threads"
echo "image   $(du -cb "${images[@]}" | awk 'END { printf "%.2f GiB", $1 / 2^30 }') in ${#images[@]} device(s), $(awk "BEGIN { printf \"%.2f GiB\", $bytes / 2^30 }") read and verified, page cache warm"
if [[ -n $zdb ]]; then
    echo "zdb     $(PATH=$PATH:/usr/sbin:/sbin zfs version 2>/dev/null | head -1 | grep . || echo 'of unknown version')"
else
    echo "zdb     not installed, not measured"
fi
echo "rounds  $rounds, medians; in brackets fastest and slowest"
echo

base=$(median "$scratch/zcheck" 1)
printf '| %-24s | %-22s | %-9s | %-11s | %-10s | %s |\n' command 'wall s' 'CPU s' 'peak MiB' "x zcheck" status
printf '| %s | %s | %s | %s | %s | %s |\n' "$(printf '%.0s-' {1..24})" "$(printf '%.0s-' {1..22})" --------- ----------- ---------- ------
row() {
    local name=$1 file=$scratch/$2
    local wall low high
    wall=$(median "$file" 1)
    low=$(cut -d' ' -f1 "$file" | sort -n | head -1)
    high=$(cut -d' ' -f1 "$file" | sort -n | tail -1)
    printf '| %-24s | %-22s | %-9s | %-11s | %-10s | %s |\n' "$name" "$wall ($low to $high)" "$(median "$file" 2)" \
        "$(awk "BEGIN { printf \"%.0f\", $(median "$file" 3) / 1024 }")" \
        "$(awk "BEGIN { if ($base > 0) printf \"%.2f\", $wall / $base; else print \"-\" }")" \
        "$(cut -d' ' -f4 "$file" | sort -nu | paste -sd, -)"
}
row cat cat
row "zcheck scrub" zcheck
[[ ${#images[@]} -eq 1 ]] || row "zcheck, one member gone" without
[[ -z $zdb ]] || row "zdb -bcc" zdb
