# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # work is begin's
# A Slurm of its own on hosts.sh's hosts: a controller on node1, a slurmd on each. Sourced after hosts.sh; needs root and Debian's slurm-wlm and munge.

start_slurm() { # "EXTRA LINES OF slurm.conf"
    local i
    needs slurmctld slurm-wlm
    needs munged munge
    chmod 711 "$work"
    mkdir -p "$work/slurm/state" "$work/munge"
    chmod 755 "$work/slurm" "$work/munge"
    (umask 077 && head -c 1024 /dev/urandom >"$work/munge/key")
    chown -R munge "$work/munge"
    munge_run() { setpriv --reuid munge --regid munge --clear-groups "$@"; }
    munge_run munged --force --socket="$work/munge/socket" --key-file="$work/munge/key" --log-file="$work/munge/log" --pid-file="$work/munge/pid" --seed-file="$work/munge/seed" ||
        skip_all "munged does not start"
    {
        echo "ClusterName=weft$$"
        echo "SlurmctldHost=node1"
        echo "AuthType=auth/munge"
        echo "AuthInfo=socket=$work/munge/socket"
        echo "SlurmUser=root"
        echo "StateSaveLocation=$work/slurm/state"
        echo "SlurmdSpoolDir=$work/slurm/spool.%n"
        echo "SlurmdPidFile=$work/slurm/slurmd.%n.pid"
        echo "SlurmctldPidFile=$work/slurm/slurmctld.pid"
        echo "SlurmctldLogFile=$work/slurm/slurmctld.log"
        echo "SlurmdLogFile=$work/slurm/slurmd.%n.log"
        echo "ProctrackType=proctrack/linuxproc"
        echo "TaskPlugin=task/none"
        echo "SwitchType=switch/none"
        echo "SelectType=select/cons_tres"
        echo "SelectTypeParameters=CR_CPU"
        echo "MpiDefault=none"
        echo "ReturnToService=2"
        echo "SchedulerParameters=requeue_setup_env_fail"
        echo "MinJobAge=600"
        echo "KillWait=30"
        echo "SlurmdParameters=config_overrides"
        for i in $(seq "$hosts"); do
            echo "NodeName=node$i NodeAddr=10.77.0.$i CPUs=4 RealMemory=1000 State=UNKNOWN"
        done
        echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES"
        echo "$1"
    } >"$work/slurm/slurm.conf"
    # Nothing here uses cgroups, but slurmd does not start without: it gets an empty folder, seen by nobody else.
    printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$work/slurm/cgroup.conf"
    for i in $(seq "$hosts"); do
        mkdir -p "$work/slurm/spool.node$i"
    done
    export SLURM_CONF=$work/slurm/slurm.conf
    on 1 setsid slurmctld -D -f "$SLURM_CONF" >"$work/slurm/ctld" 2>&1 &
    for i in $(seq "$hosts"); do
        # shellcheck disable=SC2016 # the inner shell expands
        on "$i" setsid bash -c 'mount -t tmpfs none /sys/fs/cgroup && exec slurmd -D -N "$0" -f "$1"' "node$i" "$SLURM_CONF" >"$work/slurm/slurmd$i" 2>&1 &
    done
    for _ in {1..150}; do
        [ "$(on 1 sinfo -h -N -o %T 2>/dev/null | grep -c '^idle')" = "$hosts" ] && return 0
        sleep 0.2
    done
    tail -n 5 "$work"/slurm/*.log "$work"/slurm/ctld "$work"/slurm/slurmd? | sed 's/^/# /'
    skip_all "Slurm does not come up here"
}

stop_slurm() {
    [ -s "$work/munge/pid" ] && kill "$(cat "$work/munge/pid")" 2>/dev/null
    remove_hosts
}

# Until a job is in one of these states (as "COMPLETED|FAILED"); not longer than so many seconds.
await_job() { # ID STATES SECONDS
    local until=$((SECONDS + $3))
    while [ $SECONDS -lt $until ]; do
        state=$(on 1 scontrol -o show job "$1" 2>/dev/null | grep -oE 'JobState=[A-Z_]+' | tail -n 1 | cut -d = -f 2)
        grep -q -E "^($2)\$" <<<"$state" && return 0
        sleep 0.3
    done
    return 1
}
