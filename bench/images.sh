#!/usr/bin/env bash
# What the format of a disk image costs: one raw image of one device, converted by qemu-img to each format, scrubbed in turns.
# See bench/README.md. Usage: bench/images.sh RAW_IMAGE [ROUNDS]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/bench/measure.sh"

[[ $# -ge 1 ]] || die "usage: bench/images.sh RAW_IMAGE [ROUNDS]"
raw=$(readlink -f "$1") rounds=${2:-5}
[[ -f $raw ]] || die "$raw is not a file"
command -v qemu-img >/dev/null || die "qemu-img is not installed"
threads=${ZCHECK_THREADS:-2}
zcheck=$(find_zcheck "$root")

images=$(mktemp -d "${ZCHECK_BENCH_DIR:-${TMPDIR:-/tmp}}/images.XXXXXX")
trap 'rm -rf "$images" "$scratch"' EXIT
formats=(
    "qcow2 qcow2 qcow2"
    "qcow2-zlib qcow2 qcow2 -c"
    "qcow2-zstd qcow2 qcow2 -c -o compression_type=zstd"
    "vmdk-sparse vmdk vmdk -o subformat=monolithicSparse"
    "vmdk-flat vmdk vmdk -o subformat=monolithicFlat"
    "vmdk-stream vmdk vmdk -o subformat=streamOptimized"
    "vhd vhd vpc -o subformat=dynamic,force_size=on"
    "vhdx vhdx vhdx -o subformat=dynamic"
    "vdi vdi vdi"
)
names=(raw) paths=("$raw")
for format in "${formats[@]}"; do
    read -r name extension driver options <<<"$format"
    mkdir "$images/$name"
    # shellcheck disable=SC2086 # the options are words
    qemu-img convert -f raw -O "$driver" $options "$raw" "$images/$name/disk.$extension"
    names+=("$name") paths+=("$images/$name/disk.$extension")
done
print_machine "$zcheck" "$threads" ""
echo "rounds  $rounds, in turns, after one that is not counted; medians"
echo
for ((round = 0; round <= rounds; round++)); do
    for index in "${!names[@]}"; do
        file=$scratch/${names[$index]}
        [[ $round -gt 0 ]] || file=$scratch/warm
        measure "$file" "$zcheck" scrub --threads "$threads" --progress none --json "${paths[$index]}"
    done
done
base=$(median "$scratch/raw" 1)
printf '| %-12s | %-8s | %-7s | %-6s | %-5s | %s |\n' format 'wall s' 'x raw' 'CPU s' MiB exit
printf '|%s\n' "$(printf ' --- |%.0s' {1..6})"
for name in "${names[@]}"; do
    file=$scratch/$name
    printf '| %-12s | %-8s | %-7s | %-6s | %-5s | %s |\n' "$name" "$(median "$file" 1)" \
        "$(awk "BEGIN { printf \"%.2f\", $(median "$file" 1) / $base }")" "$(median "$file" 2)" \
        "$(awk "BEGIN { printf \"%.0f\", $(median "$file" 3) / 1024 }")" "$(cut -d' ' -f4 "$file" | sort -nu | paste -sd, -)"
done
