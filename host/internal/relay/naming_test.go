package relay

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJoinedNames(t *testing.T) {
	longest := strings.Repeat("s", 40) // a service's name has no more
	for _, tt := range []struct{ name, service, tool, want string }{
		{"short", "clock", "now", "clock__now"},
		{"just short enough", "clock", strings.Repeat("a", 57), "clock__" + strings.Repeat("a", 57)},
		{"too long", "clock", strings.Repeat("a", 58), "clock__" + strings.Repeat("a", 48) + "_614e3447"},
		{"too long, and like another at its beginning", "clock", strings.Repeat("a", 59), "clock__" + strings.Repeat("a", 48) + "_7e02f94d"},
		{"of the longest service", longest, strings.Repeat("t", 128), longest + "__ttttttttttttt_eb7e0ea2"},
		{"cut within a character", "clock", "a" + strings.Repeat("é", 40), "clock__a" + strings.Repeat("é", 23) + "_b1d62410"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := joinedName(tt.service, tt.tool)
			if got != tt.want {
				t.Errorf("the name is %q, want %q", got, tt.want)
			}
			if len(got) > maxJoinedName || !utf8.ValidString(got) || !strings.HasPrefix(got, tt.service+separator) {
				t.Errorf("%q is no name", got)
			}
		})
	}
}
