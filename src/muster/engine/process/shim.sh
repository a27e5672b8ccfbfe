# Runs one replica of an attempt and leaves its exit status in a file that outlives the agent.
#
#   sh shim.sh REPLICA WORKDIR CGROUP COMMAND [ARGUMENT…]
#
# By REPLICA, its first argument, a later agent finds this shim among all processes.
#
# REPLICA.exit  the command's status as sh knows it (128 + n for signal n), REPLICA and a newline. Nobody
#               reads it before this shim is gone, so it needs no rename; one that is cut short, or another
#               replica's that a machine going down brought back, does not end in REPLICA and a newline.
#
# Only builtins are used: no process is forked but the command itself. The command runs in the foreground,
# as an asynchronous one would have SIGINT ignored. Traps are caught, not ignored: the command gets the
# defaults back, and the shim outlives a signal to the whole group and writes the status. The shim's own
# stderr is not the log, so that sh's "Killed" does not mix with the command's output.
replica=$1 workdir=$2 cgroup=$3
shift 3
trap : TERM INT HUP QUIT USR1 USR2
if [ -n "$cgroup" ]; then echo $$ >"$cgroup/cgroup.procs"; fi
(
  exec 2>&1
  cd "$workdir" || exit 126
  exec "$@"
)
status=$?
printf '%s %s\n' "$status" "$replica" >"$replica.exit"
exit "$status"
