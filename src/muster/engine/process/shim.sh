# Runs one replica of an attempt and leaves its exit status in a file that outlives the agent.
#
#   sh shim.sh DIR WORKDIR CGROUP COMMAND [ARGUMENT…]
#
# DIR/pid   this shim's line of /proc/self/stat: a process id and a start time, so that a later agent
#           can tell this shim from a stranger with the same id
# DIR/exit  the command's status as sh knows it (128 + n for signal n) and a newline. Nobody reads it
#           before this shim is gone, so a record that is whole ends in a newline and needs no rename.
#
# Only builtins are used: no process is forked but the command itself. The command runs in the foreground,
# as an asynchronous one would have SIGINT ignored. Traps are caught, not ignored: the command gets the
# defaults back, and the shim outlives a signal to the whole group and writes the status. The shim's own
# stderr is closed to the log so that sh's "Killed" does not mix with the command's output.
dir=$1 workdir=$2 cgroup=$3
shift 3
exec 3>&2 2>/dev/null
trap : TERM INT HUP QUIT USR1 USR2
read -r stat </proc/$$/stat
echo "$stat" >"$dir/pid"
if [ -n "$cgroup" ]; then echo $$ >"$cgroup/cgroup.procs"; fi
(
  exec 2>&3 3>&-
  cd "$workdir" || exit 126
  exec "$@"
)
status=$?
echo "$status" >"$dir/exit"
exit "$status"
