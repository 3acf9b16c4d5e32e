# What run.sh and all.sh share; sourced by them.

die() {
    echo "${0##*/}: $*" >&2
    exit 2
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measure FILE COMMAND...: appends "seconds CPU-seconds KiB status" to FILE. Output of the command is thrown away.
# Times are those of bash's `time`, in milliseconds; GNU time, which rounds to hundredths, is asked for memory only.
measure() {
    local file=$1 status=0
    shift
    if /usr/bin/time -f %e true 2>/dev/null; then
        local TIMEFORMAT='%3R %3U %3S'
        { time /usr/bin/time -q -f '%M' -o "$scratch/memory" "$@" >/dev/null 2>/dev/null || status=$?; } 2>"$scratch/time"
        awk -v memory="$(tail -1 "$scratch/memory")" -v status=$status \
            '{ printf "%.3f %.3f %d %d\n", $1, $2 + $3, memory, status }' "$scratch/time" >>"$file"
    elif command -v python3 >/dev/null; then
        python3 - "$@" >>"$file" <<'PYTHON'
import resource, subprocess, sys, time
began = time.monotonic()
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{time.monotonic() - began:.3f} {used.ru_utime + used.ru_stime:.3f} {used.ru_maxrss} {status}")
PYTHON
    else
        die "needs GNU time (/usr/bin/time) or python3"
    fi
}

# median FILE COLUMN
median() {
    cut -d' ' -f"$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# find_zcheck ROOT: prints the program to measure, and builds it when none is named.
find_zcheck() {
    if [[ -z ${ZCHECK:-} ]]; then
        (cd "$1" && cargo build --release --quiet --bin zcheck)
    fi
    echo "${ZCHECK:-$1/target/release/zcheck}"
}

find_zdb() { PATH=$PATH:/usr/sbin:/sbin command -v zdb || true; }

# find_images DIR: the devices of a pool into the array `images`.
find_images() {
    mapfile -d '' images < <(find -L "$1" -maxdepth 1 \( -type f -o -type b \) -print0 | sort -z)
}

# number REPORT FIELD: a number of the totals in a JSON report; nothing in a report of another form.
number() { sed -n "/^  \"totals\"/,/^  }/s/^ *\"$2\": \\([0-9]*\\),\\{0,1\\}\$/\\1/p" <<<"$1"; }

# print_machine ZCHECK THREADS ZDB
print_machine() {
    echo "date    $(date -u +%Y-%m-%d)"
    echo "cpu     $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
    echo "memory  $(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)"
    echo "kernel  $(uname -sr)"
    echo "zcheck  $("$1" --version), $(rustc --version 2>/dev/null || echo 'rustc not found'), $2 threads"
    if [[ -n $3 ]]; then
        echo "zdb     $(PATH=$PATH:/usr/sbin:/sbin zfs version 2>/dev/null | head -1 | grep . ||
            dpkg-query -W -f '${Version} (Debian)\n' zfsutils-linux 2>/dev/null || echo 'of unknown version')"
    else
        echo "zdb     not installed, not measured"
    fi
}
