#!/usr/bin/env bash
# Speed and memory of scrubs of many pools, beside the floor (cat) and the other tool (zdb): one table.
# See bench/README.md. Usage: bench/all.sh DIR [ROUNDS]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/bench/measure.sh"

[[ $# -ge 1 ]] || die "usage: bench/all.sh DIR [ROUNDS]"
dir=$1 rounds=${2:-5}
[[ -d $dir ]] || die "$dir is not a directory"
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "ROUNDS is a number from 1 on"
threads=${ZCHECK_THREADS:-2}
zdb_rounds=${ZDB_ROUNDS:-1}
zcheck=$(find_zcheck "$root")
zdb=$(find_zdb)
[[ $zdb_rounds != 0 ]] || zdb=

calc() { awk "BEGIN { $1 }"; }

scrub() { "$zcheck" scrub --threads "$threads" --progress none --json "$@"; }

# row NAME PREFIX REPORT [ZDB]: what was measured of one kind of scrub.
row() {
    local name=$1 prefix=$2 report=$3
    local wall cpu bytes blocks floor="-" peer="-" times="-" over="-"
    wall=$(median "$prefix" 1) cpu=$(median "$prefix" 2)
    bytes=$(number "$report" bytes_read) blocks=$(number "$report" copies_verified)
    # What cat needs for as many bytes as were read: it reads free space too.
    floor=$(calc "printf \"%.3f\", $(median "$scratch/cat" 1) * $bytes / $size")
    over=$(calc "printf \"%.2f\", $wall / $floor")
    if [[ -n ${4:-} ]]; then
        peer=$(median "$4" 1) times=$(calc "printf \"%.0f\", $(median "$4" 1) / $wall")
    fi
    printf '| %-18s | %-8s | %-7s | %-22s | %-6s | %-8s | %-8s | %-10s | %-10s | %-10s | %-4s | %s |\n' "$name" \
        "$(calc "printf \"%.0f\", $bytes / 2^20")" "$floor" \
        "$wall ($(cut -d' ' -f1 "$prefix" | sort -n | head -1) to $(cut -d' ' -f1 "$prefix" | sort -n | tail -1))" \
        "$cpu" "$peer" "$times" "$over" "$(calc "printf \"%.2f\", $bytes / $cpu / 1e9")" \
        "$(calc "printf \"%.0f\", $blocks / $cpu / 1000")" "$(calc "printf \"%.0f\", $(median "$prefix" 3) / 1024")" \
        "$(cut -d' ' -f4 "$prefix" | sort -nu | paste -sd, -)"
}

# One pool: everything takes turns, so that a busy neighbour slows all.
bench_pool() {
    local pool_dir=$1 name=$2 key=$3 pool report plain round
    report=$(scrub "$pool_dir" || true)
    pool=$(sed -n '/^  "pool"/,/"name"/s/^ *"name": "\(.*\)",$/\1/p' <<<"$report" | head -1)
    [[ -n $pool && -n $(number "$report" bytes_read) ]] || die "zcheck gave no report of $pool_dir"
    local -a options=()
    [[ -z $key ]] || options=(--key-file "$key")
    cat "${images[@]}" >/dev/null # warms the page cache
    for ((round = 1; round <= rounds; round++)); do
        measure "$scratch/cat" cat "${images[@]}"
        measure "$scratch/zcheck" "$zcheck" scrub --threads "$threads" --progress none --json "$pool_dir"
        measure "$scratch/sums" "$zcheck" scrub --threads "$threads" --progress none --json --no-decode "$pool_dir"
        if [[ -n $key ]]; then
            measure "$scratch/key" "$zcheck" scrub --threads "$threads" --progress none --json "${options[@]}" "$pool_dir"
        fi
        if [[ -n $zdb && $round -le $zdb_rounds ]]; then
            measure "$scratch/zdb" "$zdb" -e -p "$pool_dir" -bcc "$pool"
        fi
    done
    row "$name" "$scratch/zcheck" "$report" "${zdb:+$scratch/zdb}"
    plain=$(scrub --no-decode "$pool_dir" || true)
    row "$name, no decode" "$scratch/sums" "$plain"
    [[ -z $key ]] || row "$name, with key" "$scratch/key" "$(scrub "${options[@]}" "$pool_dir" || true)"
    rm -f "$scratch"/{cat,zcheck,sums,key,zdb}
}

print_machine "$zcheck" "$threads" "$zdb"
echo "rounds  $rounds, of zdb $zdb_rounds; medians, in brackets fastest and slowest; page cache warm"
echo
printf '| %-18s | %-8s | %-7s | %-22s | %-6s | %-8s | %-8s | %-10s | %-10s | %-10s | %-4s | %s |\n' pool 'read MiB' 'cat s' \
    'zcheck s' 'CPU s' 'zdb s' 'zdb : us' 'us : cat' 'GB/s a CPU' 'k blocks/s' MiB exit
printf '|%s\n' "$(printf ' --- |%.0s' {1..12})"
found=
for pool_dir in "$dir"/*/; do
    name=$(basename "$pool_dir") pool_dir=$(readlink -f "$pool_dir") key=
    find_images "$pool_dir"
    [[ ${#images[@]} -gt 0 ]] || continue
    found=yes
    size=$(cat -- "${images[@]}" | wc -c)
    [[ ! -f $dir/$name.key ]] || key=$dir/$name.key
    bench_pool "$pool_dir" "$name" "$key"
done
[[ -n $found ]] || die "no folder with devices in $dir"
