# What the scripts of image/ share; source it. Sets here (the sources), cache, tools (the tree of image/tools).
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$here/scripts/lib.sh"
cache=$here/.cache/image
[ "$(id -u)" = 0 ] || fail "${0##*/}: cannot build the image: it needs root, for the owners of files"
# Messages of tools and the order of names must not depend on who builds.
export LC_ALL=C TZ=UTC
umask 022
# Every date in the image: of the last commit, unless the caller says.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH
tools=$("$here/image/tools")

# in_tools DIR COMMAND...: runs a command in the tools' tree, with DIR as /mnt there. The tree itself is not written to.
in_tools() {
  local dir=$1
  shift
  # $0 to $2 are the inner shell's.
  # shellcheck disable=SC2016
  unshare --mount --propagation private sh -ec '
    mount --bind "$1" "$0/mnt"; mount -t proc proc "$0/proc"; mount -t tmpfs tmpfs "$0/tmp"; tree=$0; shift
    exec chroot "$tree" env --unset=TMPDIR PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$tools" "$dir" "$@"
}

# hash_of FILE...: short name for what was made of these inputs.
hash_of() {
  cat "$@" | sha256sum | cut -c1-12
}
