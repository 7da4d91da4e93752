package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"lays out", "service \"mcp\" \"a\" {\ncommand=[\"sh\",\"-c\"]\n  port =   8101\n}\n", "service \"mcp\" \"a\" {\n  command = [\"sh\", \"-c\"]\n  port    = 8101\n}\n"},
		{"keeps what is canonical", "locals {\n  a = 1\n}\n", "locals {\n  a = 1\n}\n"},
		{"keeps comments", "# why\nlocals {\na=1 # because\n}\n", "# why\nlocals {\n  a = 1 # because\n}\n"},
		{"keeps the byte order mark", "\xef\xbb\xbflocals {\na=1\n}\n", "\xef\xbb\xbflocals {\n  a = 1\n}\n"},
		{"keeps CRLF", "locals {\r\na=1\r\n}\r\n", "locals {\r\n  a = 1\r\n}\r\n"},
		{"keeps heredocs", "locals {\na=<<EOT\n  x\n y\nEOT\n}\n", "locals {\n  a = <<EOT\n  x\n y\nEOT\n}\n"},
		{"takes an empty file", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, diags := Format("x.hcl", []byte(test.in))
			if err := diags.Err(); err != nil || string(got) != test.want {
				t.Errorf("got %q (%v), want %q", got, err, test.want)
			}
			again, diags := Format("x.hcl", got)
			if err := diags.Err(); err != nil || !bytes.Equal(again, got) {
				t.Errorf("a second time it is %q (%v), want %q", again, err, got)
			}
		})
	}
}

func TestFormatRefusesWhatItWouldChange(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a fault of syntax", "locals {\n  a = 'x'\n}\n", "x.hcl:2,7-8"},
		{"a hostile file", "locals {\n  a = " + strings.Repeat("[", 101) + "\n}\n", "100 open brackets"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, diags := Format("x.hcl", []byte(test.in))
			if err := diags.Err(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q (%v), want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestTheSampleIsFormatted(t *testing.T) {
	const path = "../../../config/services.hcl"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, diags := Format(path, src)
	if err := diags.Err(); err != nil || !bytes.Equal(got, src) {
		t.Errorf("plughost fmt would change it to:\n%s (%v)", got, err)
	}
}

// Whatever a file holds, its words come out of it unchanged.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{"locals {\na=1\n}\n", "a=<<-EOT\n  x\n  EOT\n", "a=\"${ b }\"\n", "a={b=c,\nd=e}\n", "a=[for x in y:x]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, diags := Format("x.hcl", src)
		if diags.HasErrors() {
			return
		}
		if _, diags := Format("x.hcl", got); diags.HasErrors() {
			t.Errorf("%q becomes %q, which is refused: %v", src, got, diags.Err())
		}
	})
}
