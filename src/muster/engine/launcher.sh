#!/bin/sh
# Starts a training command on one node of a run: with torchrun, or once per process. Muster runs it in
# every replica, on every engine. It needs a POSIX sh and, in torchrun mode, the run's own Python.
#
#   sh launcher.sh COMMAND [ARGUMENT…]
#
# Each place is taken from the first of these that is set:
#
#   NODE_RANK       NODE_RANK PET_NODE_RANK JOB_COMPLETION_INDEX VC_TASK_INDEX SLURM_NODEID,
#                   the number at the end of HOSTNAME if MUSTER_RANK_BY_NAME is set, else 0
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
#   MUSTER_TERMINATION_LOG  if set, what of the root cause fits into 4096 bytes is written there at the end
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

NODE_RANK=${NODE_RANK:-${PET_NODE_RANK:-${JOB_COMPLETION_INDEX:-${VC_TASK_INDEX:-${SLURM_NODEID:-}}}}}
if [ -z "$NODE_RANK" ] && [ -n "${MUSTER_RANK_BY_NAME:-}" ]; then NODE_RANK=${HOSTNAME##*-}; fi
NODE_RANK=${NODE_RANK:-0}
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

# A member may be up before the name of rank 0 can be looked up. Its port is waited for by torch itself,
# as long: whether a plain command opens one, nobody knows here.
wait_for_name() {
  case $MASTER_ADDR in
    *[!0-9.]*) ;;
    *) return ;; # an IPv4 address
  esac
  case $MASTER_ADDR in
    *:* | localhost) return ;;
  esac
  command -v sleep >/dev/null 2>&1 || return 0
  fifths=0
  until can_look_up; do
    if [ "$fifths" -ge $((timeout * 5)) ]; then
      say "the name of rank 0, $MASTER_ADDR, cannot be looked up after $timeout seconds"
      exit 1
    fi
    if sleep 0.2 2>/dev/null; then fifths=$((fifths + 1)); else sleep 1 && fifths=$((fifths + 5)); fi
  done
}

# By the C library, as the program will. Not by nslookup: busybox's passes over the search domains.
can_look_up() {
  if command -v getent >/dev/null 2>&1; then
    getent hosts "$MASTER_ADDR" >/dev/null 2>&1
  elif command -v ping >/dev/null 2>&1; then # whether it may send anything does not matter
    case $(ping -c 1 -W 1 "$MASTER_ADDR" 2>&1) in
      *"bad address"* | *"not known"* | *"name resolution"*) return 1 ;;
    esac
  fi
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
  if [ "$restarts" -gt 0 ]; then
    # Only c10d lets the other nodes notice a restart, and static was seen to hang after one on a single
    # node. The workers must not meet in the rendezvous' own store: nodes count restarts apart from each
    # other, and would look for each other under different keys. c10d gives ranks by address and process
    # id, so RANK may not follow NODE_RANK here.
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
  set -- "$python" -m torch.distributed.run "--nnodes=$NNODES" "--nproc-per-node=$NPROC_PER_NODE" \
    "--rdzv-id=${MUSTER_RUN_ID:-muster}-${MUSTER_ATTEMPT:-1}" "--max-restarts=$restarts" "$@"
  if [ -z "${MUSTER_ERROR_DIR:-}" ] || [ -z "${MUSTER_TERMINATION_LOG:-}" ]; then exec "$@"; fi
  child= stopped=
  trap 'stopped=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT
  "$@" &
  child=$!
  if [ -n "$stopped" ]; then kill -TERM "$child" 2>/dev/null; fi
  wait_for "$child"
  tell_cause
  exit "$status"
}

# torch removes its error file before it writes it, so that cannot be the termination log itself, which is
# a mount. The end of the stack names the error.
tell_cause() {
  if [ "$status" -eq 0 ] || ! [ -s "$TORCHELASTIC_ERROR_FILE" ]; then return; fi
  "$python" -c '
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    stack = json.load(file)["message"]["extraInfo"]["py_callstack"]
for size in range(4000, 0, -100):
    text = json.dumps({"message": {"extraInfo": {"py_callstack": stack[-size:]}}})
    if len(text) <= 4096:
        break
with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.write(text)
' "$TORCHELASTIC_ERROR_FILE" "$MUSTER_TERMINATION_LOG" 2>/dev/null
}

# Sets `status`. `wait` also returns when a trap has run; once it returned for the process, that cannot be
# signalled.
wait_for() {
  while :; do
    wait "$1"
    status=$?
    if ! kill -0 "$1" 2>/dev/null; then break; fi
  done
}

# Plain mode with several processes. Each tells its process id and then its status through a pipe (3) to one
# reader, `watch_all`, which so sees them end in the order they did. Real output goes past it (4).

start_all() {
  nth=0
  while [ "$nth" -lt "$NPROC_PER_NODE" ]; do
    LOCAL_RANK=$nth
    RANK=$((NODE_RANK * NPROC_PER_NODE + nth))
    export RANK LOCAL_RANK
    (
      trap : TERM INT # a signal to the whole group must not keep a status from being told
      exec 5>&2 2>/dev/null # sh's own "Terminated" is not the command's word
      # A shell of its own, as only that can tell its process id, which the command then takes over.
      (exec 2>&5 5>&- && exec sh -c 'echo "started $LOCAL_RANK $$" >&3 && exec "$@" 3>&-' sh "$@")
      echo "ended $LOCAL_RANK $?" >&3
    ) &
    nth=$((nth + 1))
  done
}

# The first to fail ends the others: at once by SIGTERM, ten seconds later by SIGKILL. Its status is ours.
watch_all() {
  pids= ended=0 ending= heard= verdict=0
  trap 'heard=1 ending=1; [ "${MUSTER_STOP:-}" = group ] || tell_all TERM' TERM
  while [ "$ended" -lt "$NPROC_PER_NODE" ]; do
    heard=
    if ! read -r what nth value; then
      if [ -n "$heard" ]; then continue; fi # a trap ran
      if [ -z "$ending" ]; then say "a process of this launcher is gone without a status" && exit 1; fi
      break
    fi
    case $what in
      started) pids="$pids $value" && if [ -n "$ending" ]; then kill -TERM "$value" 2>/dev/null; fi ;;
      ended)
        ended=$((ended + 1))
        if [ "$value" -eq 0 ] || [ -n "$ending" ]; then continue; fi
        say "rank $((NODE_RANK * NPROC_PER_NODE + nth)) (local $nth) exited with $value"
        verdict=$value ending=1
        tell_all TERM
        kill_later >/dev/null 2>&1 & # its output closed: nobody should wait for its end
        ;;
    esac
  done
  exit "$verdict"
}

kill_later() {
  tenths=0
  while any_left && [ "$tenths" -lt 100 ]; do
    if sleep 0.1 2>/dev/null; then tenths=$((tenths + 1)); else sleep 1 && tenths=$((tenths + 10)); fi
  done
  tell_all KILL
}

any_left() {
  for pid in $pids; do kill -0 "$pid" 2>/dev/null && return; done
  return 1
}

tell_all() {
  for pid in $pids; do kill "-$1" "$pid" 2>/dev/null; done
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
  watcher= stopped=
  trap 'stopped=1; [ -z "$watcher" ] || kill -TERM "$watcher" 2>/dev/null' TERM INT
  exec 4>&1
  start_all "$@" 3>&1 >&4 4>&- | watch_all 4>&- &
  watcher=$!
  if [ -n "$stopped" ]; then kill -TERM "$watcher" 2>/dev/null; fi
  wait_for "$watcher"
  if [ -n "$stopped" ]; then exit 143; fi
  exit "$status"
}

wait_for_name
case ${MUSTER_LAUNCHER:-plain} in
  torchrun) run_torchrun "$@" ;;
  plain) run_plain "$@" ;;
  *) say "MUSTER_LAUNCHER=$MUSTER_LAUNCHER is neither torchrun nor plain" && exit 2 ;;
esac
