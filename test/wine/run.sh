#!/usr/bin/env bash
# Runs under wine those tests that concern Windows or pass there. The prefix is
# made in the directory that is given, if it is not there.
#
#   test/wine/run.sh DIR
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "usage: $0 DIR" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh" "$1"
export WINEPREFIX WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
WINEPREFIX=$(cd "$1" && pwd)
unset DISPLAY
wine=/usr/lib/wine/wine64
server=/usr/lib/wine/wineserver64
# Debian's wine leaves its server's directory among the temporary files.
work=$(mktemp -d)
export TMPDIR=$work
end() {
	"$server" -k || true # it is not running: nothing to end
	"$server" -w
	rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$here/../.."

# One server and its services for all of the tests. Whoever starts them would
# otherwise be waited for, as they inherit its output.
"$server" -p
"$wine" cmd /c exit </dev/null >/dev/null 2>&1

# Go deletes files in a way that wine 8 has not implemented, and takes the old
# way only if the system says so in other words. Without this t.TempDir cannot
# be cleaned up.
file=$(go env GOROOT)/src/internal/syscall/windows/at_windows.go
sed 's|case STATUS_INVALID_INFO_CLASS,|case NTStatus(0xC0000002), STATUS_INVALID_INFO_CLASS,|' "$file" >"$work/at_windows.go"
printf '{"Replace": {"%s": "%s"}}\n' "$file" "$work/at_windows.go" >"$work/overlay.json"

failed=0
run() {
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go test -count=1 -timeout=2m \
		-overlay "$work/overlay.json" -exec "$wine" "$@" </dev/null || failed=1
}

run ./probes ./shared/marker ./shared ./shared/loopback ./shared/mcphttp ./shared/mcpplugin

# These need a shell.
run -skip '^(TestEndsOfAReadyService|TestAStartThatEndsWithEXCONFIGIsNotTriedAgain|TestAnUpdateInEveryState)$' ./host/internal/supervise

# The rest needs plugins to be launched.
run -run '^(TestJobEndsWithTheHost|TestEnvironment|TestLine.*)$' ./host/internal/launch

# These rename or remove files that are open, or have no right to read them.
run -skip '^(TestADamagedRegistryIsMovedAside|TestEveryCutAndEveryFlipIsSurvived|TestARegistryThatIsOnlyNotToBeHadStaysWhereItIs)$' \
	./host/internal/registry

exit "$failed"
