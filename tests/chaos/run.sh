# One run of the drill: shows on disk that it lives alone, and says in its log what it must say.
#
#   sh run.sh MARKS SECONDS ok|fail|once
#
# MARKS/RUN.ATTEMPT.RANK.lock  locked for as long as any process of this member lives, by the kernel's word
# MARKS/RUN.marks              a line for each begin, end, fail, term and OVERLAP: attempt, rank, pid, uptime
#
# `begin` is marked when half of the log is written, `end` or `fail` when all of it is, `term` when it is told
# to end. `once` fails in the first attempt that comes so far, and succeeds after that.
marks=$1 seconds=$2 how=$3 rank=${RANK:-0}
run=$marks/$MUSTER_RUN_ID

mark() {
  read -r uptime idle </proc/uptime
  echo "$1 $MUSTER_ATTEMPT $rank $$ $uptime" >>"$run.marks"
}

say() { # FROM TO
  line=$1
  while [ "$line" -le "$2" ]; do
    echo "run $MUSTER_RUN_ID attempt $MUSTER_ATTEMPT rank $rank line $line of 20"
    line=$((line + 1))
  done
}

exec 2>/dev/null # sh's own "Terminated" is no part of what is compared
trap 'mark term; exit 143' TERM
exec 9>>"$run.$MUSTER_ATTEMPT.$rank.lock"
flock -n 9 || mark OVERLAP # this member of this attempt lives twice
for other in "$run".*.lock; do
  case $other in "$run.$MUSTER_ATTEMPT."*) continue ;; esac
  # Shared: two members of one attempt that look at the same time are no reason for alarm.
  flock -s -n "$other" true || mark OVERLAP # an earlier attempt still lives
done

say 1 10
mark begin
sleep "$seconds"
say 11 20
if [ "$how" = fail ] || { [ "$how" = once ] && [ ! -e "$run.failed" ]; }; then
  : >"$run.failed"
  mark fail
  exit 3
fi
mark end
