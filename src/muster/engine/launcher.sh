#!/bin/sh
# Starts a training command on one node of a run: with torchrun, or once per process. Muster runs it in
# every replica, on every engine. It needs a POSIX sh and, in torchrun mode, the run's own Python.
#
#   sh launcher.sh COMMAND [ARGUMENT…]
#
# Each place is taken from the first of these that is set:
#
#   NODE_RANK       NODE_RANK PET_NODE_RANK JOB_COMPLETION_INDEX VC_TASK_INDEX SLURM_NODEID, else 0
#   NNODES          NNODES PET_NNODES SLURM_JOB_NUM_NODES SLURM_NNODES, else 1
#   NPROC_PER_NODE  NPROC_PER_NODE PET_NPROC_PER_NODE, else 1
#   MASTER_ADDR     MASTER_ADDR PET_MASTER_ADDR, else 127.0.0.1 if there is one node
#   MASTER_PORT     MASTER_PORT PET_MASTER_PORT, else 29500
#
#   MUSTER_LAUNCHER      torchrun, or plain (the default)
#   MUSTER_PYTHON        the interpreter; else python, else python3, from PATH
#   MUSTER_MAX_RESTARTS  torchrun's restarts of failed workers, 0 unless set
#   MUSTER_RDZV_TIMEOUT  seconds for all members to meet, 600 unless set
#   MUSTER_RUN_ID, MUSTER_ATTEMPT   make the rendezvous id
#   MUSTER_ERROR_DIR     if set, torchrun leaves the root cause there: error.json (where the script uses
#                        @record; torchrun's table of failures is in the log in any case)
#   MUSTER_STOP=group    whoever stops the run signals the whole process group; else only this launcher
#                        is told, and tells its processes
#   POD_IP               this node's address, where its host name cannot be looked up by the others
#
# Exit status: the command's own; plain: that of the first process to fail, which is also named on stderr
# as "muster: rank 3 (local 1) exited with 1"; 127 if something needed is missing; 2 for a bad setting.

say() { echo "muster: $1" >&2; }

check_number() { # NAME VALUE LOWEST
  case $2 in
    '' | *[!0-9]*) say "$1=$2 is not a number" && exit 2 ;;
  esac
  if [ "$2" -lt "$3" ]; then say "$1=$2 is below $3" && exit 2; fi
}

NODE_RANK=${NODE_RANK:-${PET_NODE_RANK:-${JOB_COMPLETION_INDEX:-${VC_TASK_INDEX:-${SLURM_NODEID:-0}}}}}
NNODES=${NNODES:-${PET_NNODES:-${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}}}
NPROC_PER_NODE=${NPROC_PER_NODE:-${PET_NPROC_PER_NODE:-1}}
MASTER_ADDR=${MASTER_ADDR:-${PET_MASTER_ADDR:-}}
MASTER_PORT=${MASTER_PORT:-${PET_MASTER_PORT:-29500}}
timeout=${MUSTER_RDZV_TIMEOUT:-600}
restarts=${MUSTER_MAX_RESTARTS:-0}
check_number NODE_RANK "$NODE_RANK" 0
check_number NNODES "$NNODES" 1
check_number NPROC_PER_NODE "$NPROC_PER_NODE" 1
check_number MASTER_PORT "$MASTER_PORT" 1
check_number MUSTER_RDZV_TIMEOUT "$timeout" 1
check_number MUSTER_MAX_RESTARTS "$restarts" 0
if [ "$NODE_RANK" -ge "$NNODES" ]; then say "NODE_RANK=$NODE_RANK, but there are $NNODES nodes" && exit 2; fi
if [ -z "$MASTER_ADDR" ]; then
  if [ "$NNODES" -gt 1 ]; then say "MASTER_ADDR is not set, and there are $NNODES nodes" && exit 2; fi
  MASTER_ADDR=127.0.0.1
fi
if [ $# -eq 0 ]; then say "there is no command to run" && exit 2; fi
export NODE_RANK NNODES NPROC_PER_NODE MASTER_ADDR MASTER_PORT

# torchrun takes PET_<FLAG> as the default of every flag; what an operator set must not mix with ours.
unset PET_NNODES PET_NPROC_PER_NODE PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT PET_RDZV_BACKEND \
  PET_RDZV_ENDPOINT PET_RDZV_ID PET_RDZV_CONF PET_STANDALONE PET_MAX_RESTARTS PET_MONITOR_INTERVAL \
  PET_START_METHOD PET_ROLE PET_MODULE PET_NO_PYTHON PET_RUN_PATH PET_LOG_DIR PET_REDIRECTS PET_TEE \
  PET_LOCAL_ADDR PET_LOCAL_RANKS_FILTER PET_LOGS_SPECS PET_EVENT_LOG_HANDLER

find_python() {
  python=${MUSTER_PYTHON:-}
  if [ -z "$python" ]; then
    python=python
    command -v python >/dev/null 2>&1 || python=python3
  fi
  command -v "$python" >/dev/null 2>&1 && return
  say "${MUSTER_PYTHON:-python} is not in this run's environment"
  exit 127
}

# A member may be up before the name of rank 0 can be looked up. Its port is waited for by torch itself.
wait_for_name() {
  case $MASTER_ADDR in
    *[!0-9.]*) ;;
    *) return ;; # an IPv4 address
  esac
  case $MASTER_ADDR in
    *:* | localhost) return ;;
  esac
  command -v getent >/dev/null 2>&1 || return 0
  command -v sleep >/dev/null 2>&1 || return 0
  fifths=0
  until getent hosts "$MASTER_ADDR" >/dev/null 2>&1; do
    if [ "$fifths" -ge $((timeout * 5)) ]; then
      say "the name of rank 0, $MASTER_ADDR, cannot be looked up after $timeout seconds"
      exit 1
    fi
    if sleep 0.2 2>/dev/null; then fifths=$((fifths + 1)); else sleep 1 && fifths=$((fifths + 5)); fi
  done
}

run_torchrun() {
  find_python
  if ! "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; then
    say "torch is not installed in this run's environment: add it to requirements.txt, or use launcher: plain"
    exit 127
  fi
  case $1 in
    python | python3 | */python | */python3) shift ;; # torchrun brings its own
    *.py | -m) ;;
    *) set -- --no-python "$@" ;;
  esac
  if [ "$NNODES" -gt 1 ] && [ "$restarts" -gt 0 ]; then
    # Only c10d lets the other nodes notice a restart. The workers must not meet in the rendezvous' own
    # store: nodes count restarts apart from each other, and would look for each other under different
    # keys. c10d gives ranks by address and process id, so RANK may not follow NODE_RANK here.
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    conf="is_host=$([ "$NODE_RANK" -eq 0 ] && echo 1 || echo 0),join_timeout=$timeout,read_timeout=$timeout"
    local_addr=${POD_IP:-}
    case $MASTER_ADDR in 127.* | localhost) local_addr=$MASTER_ADDR ;; esac
    if [ -n "$local_addr" ]; then set -- "--local-addr=$local_addr" "$@"; fi
    set -- --rdzv-backend=c10d "--rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT" "--rdzv-conf=$conf" "$@"
  else
    set -- --rdzv-backend=static "--node-rank=$NODE_RANK" "--master-addr=$MASTER_ADDR" \
      "--master-port=$MASTER_PORT" "--rdzv-conf=timeout=$timeout" "$@"
  fi
  if [ -n "${MUSTER_ERROR_DIR:-}" ]; then
    export TORCHELASTIC_ERROR_FILE="$MUSTER_ERROR_DIR/error.json"
    set -- "--log-dir=$MUSTER_ERROR_DIR/torchrun" "$@" # else a directory in /tmp that stays
  fi
  exec "$python" -m torch.distributed.run "--nnodes=$NNODES" "--nproc-per-node=$NPROC_PER_NODE" \
    "--rdzv-id=${MUSTER_RUN_ID:-muster}-${MUSTER_ATTEMPT:-1}" "--max-restarts=$restarts" "$@"
}

# One process of the plain mode, in a subshell of its own: runs the command, and if that fails by itself
# names it and wakes the launcher. Once told to end (USR1: gently, USR2: at once) its status counts for
# nothing.
run_rank() {
  LOCAL_RANK=$1
  RANK=$((NODE_RANK * NPROC_PER_NODE + LOCAL_RANK))
  export RANK LOCAL_RANK
  shift
  told= child=
  trap 'told=1' TERM INT
  trap 'end_child' USR1
  trap 'told=1; [ -z "$child" ] || kill -KILL "$child" 2>/dev/null' USR2
  "$@" &
  child=$!
  if [ -n "$told" ]; then
    pause # until the new process is the command, no longer a copy of this shell with its traps
    kill -TERM "$child" 2>/dev/null
  fi
  wait_for "$child"
  if [ -n "$told" ] || [ "$status" -eq 0 ]; then exit 0; fi
  failure=$status
  say "rank $RANK (local $LOCAL_RANK) exited with $failure"
  until [ -n "$told" ]; do # again, should the launcher have been just about to wait
    kill -USR1 $$
    pause
  done
  exit "$failure"
}

end_child() {
  if [ -z "$told" ] && [ -n "$child" ]; then kill -TERM "$child" 2>/dev/null; fi
  told=1
}

# A tenth of a second, or one where sleep knows no fractions. Traps run at once.
pause() {
  { sleep 0.1 2>/dev/null || sleep 1; } &
  wait $!
}

# `wait` also returns when a trap has run; the process is gone once it cannot be signalled any more.
wait_for() {
  while :; do
    wait "$1"
    status=$?
    if [ "$status" -le 128 ] || ! kill -0 "$1" 2>/dev/null; then return; fi
    if [ -n "${failed:-}" ]; then end_all; fi
  done
}

tell_all() {
  for one in $pids; do kill "-$1" "$one" 2>/dev/null; done
}

# A process failed: the others are told to end (again, should one have just begun), and made to after ten
# seconds.
end_all() {
  if [ -n "$killer" ]; then return; fi
  tell_all USR1
  (
    sleeper=
    trap '[ -z "$sleeper" ] || kill "$sleeper"; exit 0' TERM
    pause
    tell_all USR1
    sleep 10 &
    sleeper=$!
    wait "$sleeper"
    tell_all USR2
  ) &
  killer=$!
}

run_plain() {
  case $1 in *.py) find_python && set -- "$python" "$@" ;; esac
  WORLD_SIZE=$((NNODES * NPROC_PER_NODE))
  LOCAL_WORLD_SIZE=$NPROC_PER_NODE
  export WORLD_SIZE LOCAL_WORLD_SIZE
  if [ "$NPROC_PER_NODE" -eq 1 ]; then
    RANK=$NODE_RANK LOCAL_RANK=0
    export RANK LOCAL_RANK
    exec "$@"
  fi
  pids= killer= failed= stopped= verdict=0
  trap '' USR1 USR2 # so that a subshell does not die of one before it has set its own
  trap 'stopped=1; [ "${MUSTER_STOP:-}" = group ] || tell_all USR1' TERM INT
  local=0
  while [ "$local" -lt "$NPROC_PER_NODE" ]; do
    (run_rank "$local" "$@") &
    pids="$pids $!"
    local=$((local + 1))
  done
  trap 'failed=1' USR1
  for pid in $pids; do
    if [ -n "$failed" ]; then end_all; fi
    wait_for "$pid"
    if [ "$verdict" -eq 0 ]; then verdict=$status; fi
  done
  if [ -n "$killer" ]; then kill "$killer" 2>/dev/null; fi
  if [ -n "$stopped" ]; then exit 143; fi
  exit "$verdict"
}

wait_for_name
case ${MUSTER_LAUNCHER:-plain} in
  torchrun) run_torchrun "$@" ;;
  plain) run_plain "$@" ;;
  *) say "MUSTER_LAUNCHER=$MUSTER_LAUNCHER is neither torchrun nor plain" && exit 2 ;;
esac
