# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Hosts for tests: network namespaces with names and addresses of their own, joined by a bridge that is in a namespace, too; nothing of this machine's network is
# touched. Also what all tests of clusters share: TAP, one run's folder and INI. Sourced.
set -u
tree=$(cd "${WEFT_TREE:-$(dirname "${BASH_SOURCE[0]}")/../..}" && pwd) || exit 99
weft=$(readlink -f "${WEFT:-$tree/build/.libs/weft}")
fixtures=$(cd "${WEFT_TEST_FIXTURES:-$tree/build/tests/fixtures/plugins}" 2>/dev/null && pwd)
number=0 bad=0 hosts=0

skip_all() { # WHY
    echo "1..0 # SKIP $1"
    exit 0
}

needs() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null || skip_all "needs $1 (Debian: $2)"
}

has_plugin() {
    "$weft" plugins 2>/dev/null | grep -q "^ *$1 .*[0-9]"
}

report() { # TITLE COMPLAINT: empty is well
    number=$((number + 1))
    if [ -z "$2" ]; then
        echo "ok $number - $1"
        return
    fi
    echo "not ok $number - $1"
    printf '# %s\n' "$2"
    tail -n 20 out* err* 2>/dev/null | sed 's/^/#   /'
    bad=1
}

skip() { # TITLE WHY
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

finish() {
    echo "1..$number"
    exit $bad
}

# ---- hosts ----

ns() { echo "weft$$-$1"; }

remove_hosts() {
    local i pid
    for i in $(seq 0 "$hosts"); do
        for pid in $(ip netns pids "$(ns "$i")" 2>/dev/null); do
            kill -KILL "$pid" 2>/dev/null
        done
        ip netns del "$(ns "$i")" 2>/dev/null
        rm -rf "/etc/netns/$(ns "$i")"
    done
    hosts=0
}

make_hosts() { # N: node1 to nodeN, 10.77.0.1 to 10.77.0.N
    local i
    [ "$(id -u)" = 0 ] || skip_all "needs root"
    needs ip iproute2
    needs unshare util-linux
    ip netns add "$(ns 0)" 2>/dev/null || skip_all "network namespaces cannot be made here"
    ip -n "$(ns 0)" link add br0 type bridge && ip -n "$(ns 0)" link set br0 up || skip_all "there are no bridges"
    hosts=$1
    for i in $(seq "$1"); do
        ip netns add "$(ns "$i")"
        ip -n "$(ns "$i")" link set lo up
        ip -n "$(ns "$i")" link add eth0 type veth peer name "port$i" netns "$(ns 0)"
        ip -n "$(ns 0)" link set "port$i" up master br0
        ip -n "$(ns "$i")" addr add "10.77.0.$i/24" dev eth0
        ip -n "$(ns "$i")" link set eth0 up
        mkdir -p "/etc/netns/$(ns "$i")"
        { echo '127.0.0.1 localhost' && for k in $(seq "$1"); do echo "10.77.0.$k node$k"; done; } >"/etc/netns/$(ns "$i")/hosts"
    done
}

# Runs a command as if on that host.
on() { # HOST COMMAND...
    local host=$1
    shift
    # shellcheck disable=SC2016 # the inner shell expands
    ip netns exec "$(ns "$host")" unshare --uts bash -c 'hostname "$0" && exec "$@"' "node$host" "$@"
}

# What mpirun is to start its daemons with, in place of ssh.
make_agent() {
    # shellcheck disable=SC2016 # the script's own
    {
        echo '#!/bin/bash'
        echo "ns() { echo weft$$-\$1; }"
        declare -f on
        echo 'host=${1#node}; shift; on "$host" bash -c "$*"'
    } >"$work/agent"
    chmod +x "$work/agent"
}

# The cable of a host is out, or in again.
cut_off() { ip -n "$(ns 0)" link set "port$1" down; }

# Programs of weft that are left on any host.
left() {
    local i pid
    for i in $(seq "$hosts"); do
        for pid in $(ip netns pids "$(ns "$i")"); do
            case $(readlink "/proc/$pid/exe") in
            */weft | */orted | */orterun | */mpirun) echo "node$i: $(tr '\0' ' ' <"/proc/$pid/cmdline")" ;;
            esac
        done
    done
}

gone() { # SECONDS: is nothing left on any host by then?
    local until=$((SECONDS + $1))
    while [ -n "$(left)" ]; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.2
    done
}

# ---- runs ----

write() { # FILE "plugins" "sections"
    {
        printf '[weft]\nplugins = llama3 text cpu %s adamw metrics\nthreads = 1\ndir = %s\n' "$2" "${1%.ini}"
        printf '[train]\nsteps = 3\nseq_len = 10\nglobal_batch = 12\nmicro_batch = 2\n[text]\npath = text.txt\n[adamw]\nlr = 1e-3\n[metrics]\nbar = no\n'
        printf '[llama3]\ndim = 24\nn_layers = 2\nn_heads = 4\nn_kv_heads = 2\nhead_dim = 6\nffn_dim = 27\nvocab_size = 259\n%b' "$3"
    } >"$1"
}

# Everything that does not depend on the clock or the machine.
numbers() {
    sed -E 's/.*"step": ([0-9]+), "loss": *([^,]*), *"grad_norm": *([^,}]*).*/\1 \2 \3/' "$1/metrics.jsonl"
}

await_steps() { # DIR: until a few steps are made; not longer than a minute
    local until=$((SECONDS + 60))
    while [ $SECONDS -lt $until ]; do
        [ -s "$1/metrics.jsonl" ] && [ "$(wc -l <"$1/metrics.jsonl")" -ge 3 ] && return 0
        sleep 0.1
    done
    return 1
}

# ---- ranks by hand, one on each host ----

port=29600
# One rank on each of the first hosts, of $ini.
start() { # HOSTS OPTIONS...
    local n=$1 i
    shift
    rm -rf run out* err*
    for i in $(seq "$n"); do
        RANK=$((i - 1)) WORLD_SIZE=$n MASTER_ADDR=node1 MASTER_PORT=$port on "$i" timeout -k 5 150 "$weft" train "$ini" -o train.steps=1000000 "$@" >"out$i" 2>"err$i" &
        pids[i]=$!
    done
    port=$((port + 1))
}

# Waits for the ranks of these hosts: $codes, $took.
collect() { # HOSTS...
    local i
    codes='' took=$SECONDS
    for i in "$@"; do
        wait "${pids[i]}"
        codes="$codes $?"
    done
    took=$((SECONDS - took))
    codes=${codes# }
}

says() { # HOST PATTERN
    grep -q -E -e "$2" "err$1" || echo "host $1 does not say: $2; "
}

victim() { # HOST: its rank's process
    local pid
    for pid in $(ip netns pids "$(ns "$1")"); do
        [ "$(readlink "/proc/$pid/exe")" = "$weft" ] && echo "$pid" && return
    done
}

begin() { # a folder of its own, and a text to learn
    work=$(mktemp -d) || exit 99
    trap 'remove_hosts; type stop_slurm >/dev/null 2>&1 && stop_slurm; rm -rf "$work"' EXIT
    cd "$work" || exit 99
    export HOME=$work XDG_CACHE_HOME=$work/cache LC_ALL=C NO_COLOR=1 UCX_TLS=tcp,self UCX_WARN_UNUSED_ENV_VARS=n
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    local name
    for name in $(compgen -e | grep -E '^(WEFT_(RANK|RANKS|LOCAL_RANKS|MASTER|TOKEN|TOKEN_FILE|LAUNCHER)|RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|OMPI_COMM_.*|SLURM_.*|PMIX_.*)$'); do
        unset "$name"
    done
    export WEFT_TOKEN='of hosts that are namespaces'
    local i
    for i in {1..300}; do echo "Sentence $i of a text: the quick brown fox number $((i * 7919 % 1000)) jumps over the lazy dog."; done >text.txt
}
