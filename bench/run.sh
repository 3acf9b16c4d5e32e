#!/usr/bin/env bash
# Speed and memory of a whole scrub, beside the floor (cat) and the other tool (zdb), on one warm image.
# See bench/README.md. Usage: bench/run.sh IMAGE_DIR POOL [ROUNDS]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/bench/measure.sh"

[[ $# -ge 2 ]] || die "usage: bench/run.sh IMAGE_DIR POOL [ROUNDS]"
dir=$1 pool=$2 rounds=${3:-5}
[[ -d $dir ]] || die "$dir is not a directory"
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "ROUNDS is a number from 1 on"
threads=${ZCHECK_THREADS:-2}
zcheck=$(find_zcheck "$root")
zdb=$(find_zdb)

run_cat() { measure "$scratch/cat" cat "${images[@]}"; }
run_zcheck() { measure "$scratch/zcheck" "$zcheck" scrub --threads "$threads" --pool "$pool" --json "$dir"; }
# All devices but the first: what a missing member costs.
run_without() { measure "$scratch/without" "$zcheck" scrub --threads "$threads" --pool "$pool" --json "${images[@]:1}"; }
run_zdb() { measure "$scratch/zdb" "$zdb" -e -p "$dir" -bcc "$pool"; }

find_images "$dir"
[[ ${#images[@]} -gt 0 ]] || die "no files or block devices in $dir"
cat "${images[@]}" >/dev/null # warms the page cache

# The tools take turns, so that a busy neighbour slows all of them.
for ((round = 1; round <= rounds; round++)); do
    run_cat
    run_zcheck
    [[ ${#images[@]} -eq 1 ]] || run_without
    [[ -z $zdb ]] || run_zdb
done

report=$("$zcheck" scrub --threads "$threads" --pool "$pool" --json "$dir" || true)
bytes=$(number "$report" bytes_read)
[[ -n $bytes ]] || die "zcheck gave no report: $zcheck scrub --pool $pool $dir"

print_machine "$zcheck" "$threads" "$zdb"
echo "image   $(du -cb "${images[@]}" | awk 'END { printf "%.2f GiB", $1 / 2^30 }') in ${#images[@]} device(s), $(awk "BEGIN { printf \"%.2f GiB\", $bytes / 2^30 }") read and verified, page cache warm"
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
