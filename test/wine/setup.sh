#!/usr/bin/env bash
# Makes a place in which Windows programs run on Debian: wine64 and a prefix
# (its idea of a Windows disk) in the directory that is given. What is there
# already is left as it is.
#
#   test/wine/setup.sh DIR
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "usage: $0 DIR" >&2
	exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
wine=/usr/lib/wine/wine64
linker=x86_64-w64-mingw32-ld

missing=()
[ -x "$wine" ] || missing+=(wine64)
command -v "$linker" >/dev/null || missing+=(binutils-mingw-w64-x86-64)
if [ ${#missing[@]} -gt 0 ]; then
	install=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
	[ "$(id -u)" -eq 0 ] || install=(sudo -n "${install[@]}")
	"${install[@]}" update
	"${install[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# Debian's wine makes a directory for its server's socket among the temporary
# files and leaves it there.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work WINEPREFIX=$prefix WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
unset DISPLAY
system=$prefix/drive_c/windows/system32
if [ ! -e "$prefix/system.reg" ] || [ ! -e "$system/kernel32.dll" ]; then
	# At least one process of wine keeps running for a while: its server
	# saves the registry, for which the file above stands, when it ends.
	"$wine" wineboot -i >/dev/null 2>&1 </dev/null
	/usr/lib/wine/wineserver64 -w
fi

# Go's runtime takes its random numbers from bcryptprimitives.dll, which wine 8
# lacks. The same function is in advapi32.dll under its old name.
if [ ! -e "$system/bcryptprimitives.dll" ]; then
	printf '%s\n' 'LIBRARY bcryptprimitives.dll' 'EXPORTS' \
		'ProcessPrng = advapi32.SystemFunction036' >"$work/bp.def"
	"$linker" -shared -e 0 --disable-reloc-section -o "$work/bcryptprimitives.dll" "$work/bp.def"
	mv "$work/bcryptprimitives.dll" "$system/"
fi
