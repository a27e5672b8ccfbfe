# Brings the code of a run into an empty folder, with what the run's own image has:
#
#   sh -c … sh FOLDER
#
#   MUSTER_CODE_URL   the snapshot on the server; its archive and its checksums are below
#   MUSTER_CODE_KEY   a key that opens that snapshot only
#
# Fetches with the first of python3, curl, wget; unpacks with tar, else python3; verifies with sha256sum, else
# python3. Five tries, with growing pauses. Exit status: 127 if the image lacks something.

say() { echo "muster: $1" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

if ! have python3 && ! have curl && ! have wget; then
  say "this image has none of python3, curl, wget, so the code cannot be fetched"
  exit 127
fi
if ! have tar && ! have python3; then
  say "this image has neither tar nor python3, so the code cannot be unpacked"
  exit 127
fi
cd "$1" || exit 1
archive=.muster-archive sums=.muster-checksums

get() { # WHAT FILE
  if have python3; then
    python3 -c '
import http.client, os, shutil, sys, urllib.request
headers = {"Authorization": "Bearer " + os.environ["MUSTER_CODE_KEY"]}
request = urllib.request.Request(os.environ["MUSTER_CODE_URL"] + "/" + sys.argv[1], headers=headers)
try:
    with urllib.request.urlopen(request, timeout=60) as answer, open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)
except (OSError, ValueError, http.client.HTTPException) as error:
    sys.exit("muster: python3: %s" % error)
' "$1" "$2"
  elif have curl; then
    curl -fsS --connect-timeout 20 --speed-time 60 --speed-limit 1 -o "$2" \
      -H "Authorization: Bearer $MUSTER_CODE_KEY" "$MUSTER_CODE_URL/$1"
  else # without -T, on which busybox 1.35 crashes
    wget $quiet -O "$2" --header "Authorization: Bearer $MUSTER_CODE_KEY" "$MUSTER_CODE_URL/$1"
  fi
}

unpack() {
  if have tar; then
    tar -x -o -f "$archive"
  else
    python3 -c '
import sys, tarfile
with tarfile.open(sys.argv[1]) as archive:
    archive.extractall(**({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
' "$archive"
  fi
}

verify() {
  if ! [ -s "$sums" ]; then return 0; fi # nothing but links
  if have sha256sum; then
    sha256sum -c "$sums" >/dev/null
  elif have python3; then
    python3 -c '
import hashlib, sys
with open(sys.argv[1], encoding="utf-8", newline="\n") as sums:
    for line in sums:
        digest, path = line.rstrip("\n").split("  ", 1)
        with open(path, "rb") as file:
            if hashlib.sha256(file.read()).hexdigest() != digest:
                sys.exit("muster: %s is not what was sent" % path)
' "$sums"
  else
    say "this image has neither sha256sum nor python3: the code is not verified"
  fi
}

bring() {
  rm -rf ./* ./.[!.]* ./..?* # what a try before left
  get archive "$archive" && get checksums "$sums" && unpack && verify
}

tries=1 pause=1 quiet=-q
until bring; do
  if [ "$tries" -ge 5 ]; then
    say "the code could not be brought from $MUSTER_CODE_URL, in $tries tries"
    exit 1
  fi
  sleep "$pause"
  tries=$((tries + 1)) pause=$((pause * 2))
  if [ "$tries" -eq 5 ]; then quiet=; fi # as wget then says why
done
rm -f "$archive" "$sums"
