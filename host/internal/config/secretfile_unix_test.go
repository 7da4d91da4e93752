//go:build unix

package config

import (
	"os"
	"testing"
)

func TestTokenThatOthersCanReadIsWarnedOf(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "services.hcl", "host {\n gateway {\n  token \"a\" {\n   file=\"token\"\n  }\n }\n}\n")
	write(t, "token", "0123456789abcdef\n")
	for mode, found := range map[os.FileMode][]finding{
		0o644: {warns("4,9-16", "every user", "chmod 600")},
		0o604: {warns("4,9-16", "every user", "chmod 600")},
		0o640: nil,
		0o600: nil,
	} {
		if err := os.Chmod("token", mode); err != nil {
			t.Fatal(err)
		}
		_, diags := Load("services.hcl")
		wantFindings(t, diags, found...)
	}
}
