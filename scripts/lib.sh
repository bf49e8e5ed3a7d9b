# What the scripts of scripts/ and image/ share; source it.

# A command substitution ends at its first failure, as the script does.
shopt -s inherit_errexit

# Downloads are tried again for some minutes: apt waits 1, 2, 4, 8 and 16 s in between, npm 10 s and then a minute.
download_retries=5

# fail MESSAGE [HINT]: ends the script.
fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# locked FILE COMMAND...: runs a function or a command while no other script holds the lock of this file. The command does
# not inherit the lock's descriptor: mmdebstrap passes the lowest free one to dash, which can redirect none above 9.
locked() {
  local file=$1
  shift
  mkdir -p "${file%/*}"
  { flock 9; "$@" 9>&-; } 9>"$file"
}
