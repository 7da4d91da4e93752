package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestHostileInputIsRefusedBeforeItIsParsed(t *testing.T) {
	// Far above every limit.
	const many = 4 * maxOperators
	for _, tt := range []struct {
		name, text, says string
	}{
		{"parentheses", "a=" + strings.Repeat("(", many), "open brackets"},
		{"brackets", "a=" + strings.Repeat("[", many), "open brackets"},
		{"braces", "a=" + strings.Repeat("{", many), "open brackets"},
		{"blocks", strings.Repeat("a {\n", many/4), "open brackets"},
		{"calls", "a=" + strings.Repeat("a(", many/2), "open brackets"},
		{"templates", "a=" + strings.Repeat(`"${`, many/3), "open brackets"},
		{"template directives", `a="` + strings.Repeat(`%{if true}`, many/10), "open brackets"},
		{"brackets of several kinds", "a=" + strings.Repeat("([{", many/3), "open brackets"},
		{"brackets on many lines", "a=" + strings.Repeat("(\n#x\n", many/5), "open brackets"},
		{"wrong closers between", "a=" + strings.Repeat("[)(]", many/4) + strings.Repeat("[)", many/4), "open brackets"},
		{"negations", "a=" + strings.Repeat("!", many), "in a row"},
		{"minus signs", "a=" + strings.Repeat("-", many), "in a row"},
		{"minus signs with space between", "a=(" + strings.Repeat("- !\n/**/", many/8), "in a row"},
		{"additions", "a=1" + strings.Repeat("+1", many/2), "operators"},
		{"comparisons", "a=1" + strings.Repeat("==1", many/3), "operators"},
		{"conditions", "a=" + strings.Repeat("b?c:", many/3), "operators"},
		{"heredocs", "a=" + strings.Repeat("<<A\n", many), "heredocs"},
		{"huge number", "a=1e1000000000", "too large"},
		{"huge number in a template", `a="${1e+1000000000}"`, "too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, diags := loadText(t, "services.hcl", tt.text)
			all := diags.All()
			if cfg != nil || len(all) != 1 || !strings.Contains(all[0].Summary, tt.says) {
				t.Errorf("got %v", diags.Err())
			}
		})
	}
}

// What took quadratic time, or worse, takes minutes at this size.
func TestLargeInputIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("reads large files")
	}
	const size = 20_000 // bytes
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"index chain":          "a=b" + repeat("[c]"),
		"attribute chain":      "a=b" + repeat(".c"),
		"splat chain":          "a=b" + repeat("[0]"),
		"quotes":               repeat(`"`),
		"open heredocs":        "a=" + repeat("<<A\n"),
		"unknown arguments":    "service \"mcp\" \"a\" {\n" + numbered("a%d=1\n") + "}\n",
		"unknown blocks":       repeat("a {\n}\n"),
		"services":             numbered("service mcp a%d {\n command=[\"sh\"]\n}\n"),
		"undeclared":           numbered("service mcp a%[1]d {\n command=[\"sh\"]\n depends_on=[service.mcp.b%[1]d]\n}\n"),
		"chain with a cycle":   "service mcp a0 {\n command=[\"sh\"]\n depends_on=[" + numbered("service.mcp.a%d,")[:size/2] + "]\n}\n",
		"variables":            "service mcp a {\n env={" + numbered("A%d=B,") + "}\n}\n",
		"elements":             "service mcp a {\n command=[\"sh\"," + repeat("1,") + "]\n}\n",
		"words as a command":   "service mcp a {\n command=\"" + repeat("x ") + "\"\n}\n",
		"digits":               "service mcp a {\n command=[\"sh\"," + repeat("9") + "]\n}\n",
		"one service again":    repeat("service mcp a {\n command=[\"sh\"]\n}\n"),
		"one long line":        repeat("é"),
		"sequence of escapes":  repeat("\x1b"),
		"labels without space": "service " + repeat(`"a"`) + "{\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, diags := loadText(t, "services.hcl", text)
			var out strings.Builder
			if err := WriteDiagnostics(&out, diags, true, 80); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d findings, %d bytes", len(diags.All()), out.Len())
		})
	}
}

func TestLimitsLeaveRoomForOrdinaryDepth(t *testing.T) {
	list := strings.Repeat("[", 90) + strings.Repeat("]", 90)
	text := written(`@ env={A=length(` + list + `)}|}`)
	cfg, diags := loadText(t, "services.hcl", text)
	good(t, cfg, diags)
	// Brackets that are closed do not count, however many there are.
	cfg, diags = loadText(t, "services.hcl", written(`@ env={A="`+strings.Repeat("${(1)}", 10*maxBrackets)+`"}|}`))
	good(t, cfg, diags)
}

func TestFilesTogetherAreBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	empty := "{" + strings.Repeat(" ", maxFileSize-2) + "}"
	for i := range 12 {
		write(t, fmt.Sprintf("conf/%02d.hcl.json", i), empty)
	}
	_, diags := Load("conf")
	wantFindings(t, diags, at("", "more than 8MiB", "08.hcl.json"))
}
