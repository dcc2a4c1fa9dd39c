# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside this folder: installs missing Debian or Ubuntu packages and builds.
# Quiet and quick when everything is in place; works without network when the packages are there.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# What building and testing need, under the names of Debian 12 and Ubuntu 24.04.
build_packages=(
  g++ make ninja-build cmake pkg-config
  libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  libtbb-dev libdnnl-dev opencl-headers ocl-icd-opencl-dev
  liburing-dev libhwloc-dev libxxhash-dev libopenmpi-dev openmpi-bin
)

say() { printf '%s\n' "$*" >&2; }

# as_root COMMAND…: through sudo where we are not root.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >/dev/null
}

# install_packages PACKAGE…: installs those that are missing. Where that is not possible it says what
# to install, and the caller goes on to try with what is there.
install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "Not a Debian or Ubuntu system: going on with what is installed. The packages there are:"
    say "  $*"
    return 0
  fi
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "Going on without packages that only root can install: apt-get install ${missing[*]}"
    return 0
  fi
  say "Installing from the system's packages: ${missing[*]}"
  # A fresh machine has no package lists yet, or old ones.
  apt_install "${missing[@]}" 2>/dev/null ||
    { as_root apt-get update -qq && apt_install "${missing[@]}"; } ||
    say "apt-get could not install them: going on with what is there"
}

# build_strata FOLDER TARGET [CMAKE ARGUMENT…]: configures and builds; the tools' own words are shown
# when they fail, and progress where someone may be watching.
build_strata() {
  local folder=$1 target=$2 log status=0
  shift 2
  log=$(mktemp)
  if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR-Ninja}; fi
  say "Building in $folder"
  cmake -S "$root" -B "$folder" "$@" >"$log" 2>&1 &&
    cmake --build "$folder" --target "$target" --parallel "$(nproc)" 2>&1 | show_progress "$log" ||
    status=$?
  [ "$status" = 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# show_progress LOG: appends standard input to LOG, and on a terminal shows its latest "[ 42%]".
show_progress() {
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    if [ -t 2 ] && [[ $line =~ ^\[\ *[0-9]+(%|/[0-9]+)\] ]]; then
      printf '\r%s' "${BASH_REMATCH[0]}" >&2
    fi
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}
