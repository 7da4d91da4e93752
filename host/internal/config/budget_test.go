package config

import (
	"fmt"
	"strings"
	"testing"
)

// Each of these takes minutes, or more memory than there is, if it is not given
// up.
func TestExpensiveEvaluationIsGivenUp(t *testing.T) {
	// A fraction of what is allowed, for which the race detector needs no minutes.
	const units = maxCost / 50
	list := "[" + strings.Repeat("1,", 1000) + "]"
	doubled := func(format string) string {
		var b strings.Builder
		b.WriteString("locals {\n l0=\"0123456789\"\n")
		for i := range 60 {
			fmt.Fprintf(&b, " l%d="+format+"\n", i+1, i)
		}
		return b.String() + "}\n"
	}
	text := `"` + strings.Repeat("a", 50_000) + `"`
	for name, source := range map[string]string{
		"lists of lists":         doubled("[local.l%[2]d,local.l%[2]d]"),
		"texts of texts":         doubled(`"${local.l%[2]d}${local.l%[2]d}"`),
		"maps of maps":           doubled("{a=local.l%[2]d,b=local.l%[2]d}"),
		"joined lists":           doubled(`join(local.l%[2]d,[local.l%[2]d,local.l%[2]d])`),
		"formatted texts":        doubled(`format("%%s%%s",local.l%[2]d,local.l%[2]d)`),
		"replaced texts":         doubled(`replace(local.l%[2]d,"0",local.l%[2]d)`),
		"concatenated lists":     strings.Replace(doubled("concat(local.l%[2]d,local.l%[2]d)"), `"0123456789"`, "[1]", 1),
		"encoded texts":          doubled("jsonencode(jsonencode(local.l%[2]d))"),
		"loops in loops":         "locals {\n a=" + list + "\n b=[for x in local.a:[for y in local.a:[for z in local.a:1 if false]]]\n}\n",
		"loops over literals":    "locals {\n b=[for x in " + list + ":[for y in " + list + ":[for z in " + list + ":1]]]\n}\n",
		"loops in templates":     "locals {\n a=" + list + "\n b=\"%{for x in local.a}%{for y in local.a}%{for z in local.a}%{endfor}%{endfor}%{endfor}\"\n}\n",
		"one text many times":    "locals {\n a=" + text + "\n b=length(\"" + strings.Repeat("${local.a}", 2_000) + "\")\n}\n",
		"one text in a loop":     "locals {\n a=[" + text + "]\n b=[for x in local.a:length(\"" + strings.Repeat("${x}", 2_000) + "\")]\n}\n",
		"nested try":             "locals {\n a=" + strings.Repeat("try(", 60) + "1" + strings.Repeat(")", 60) + "\n}\n",
		"wide formats":           `locals { a=format("%1000000000d",1) }` + "\n",
		"deep JSON":              "locals {\n a=jsondecode(\"" + strings.Repeat("[", 100_000) + "\")\n}\n",
		"huge numbers":           "locals {\n a=1e999*1e999\n" + strings.ReplaceAll(doubled("local.l%[2]d*local.l%[2]d"), "locals {\n l0=\"0123456789\"", " l0=1e999"),
		"huge numbers as text":   `locals { a="${tonumber("1e100000000")}" }` + "\n",
		"distinct elements":      "locals {\n a=distinct([for x in range(1000):[for y in range(1000):x*1000+y]])\n b=distinct(flatten([for x in range(100):[for y in range(200):x*1000+y]]))\n}\n",
		"large regular patterns": "locals {\n a=" + text + "\n b=[for i in range(1000):can(regex(\"(a?){500}b\",local.a))]\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, file := range []string{"services.hcl", "services.hcl.json"} {
				if file == "services.hcl.json" {
					source = inJSON(source)
				}
				write(t, file, source)
				cfg, diags := Input{Paths: []string{file}, budget: units}.Load()
				if cfg != nil {
					t.Errorf("%s is accepted", file)
				}
				if n := len(diags.All()); n > 3 {
					t.Errorf("%d faults are found in %s: %v", n, file, diags.Err())
				}
			}
		})
	}
}

// inJSON writes a locals block in JSON, each value as a template.
func inJSON(source string) string {
	var b strings.Builder
	b.WriteString(`{"locals":{"":""`)
	for _, line := range strings.Split(source, "\n") {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "locals { "), "=")
		if ok {
			fmt.Fprintf(&b, ",%q:%q", name, "${"+strings.TrimSuffix(value, " }")+"}")
		}
	}
	return b.String() + "}}"
}

// Each of these services costs far more than services do.
func TestOrdinaryEvaluationIsFarFromTheLimit(t *testing.T) {
	var b strings.Builder
	b.WriteString("locals {\n common={")
	for i := range 50 {
		fmt.Fprintf(&b, "NAME_%d=\"a value of ordinary length\",", i)
	}
	b.WriteString("}\n}\n")
	const services = 100
	for i := range services {
		fmt.Fprintf(&b, "service mcp a%d {\n command=[\"sh\"]\n env=merge(local.common,{A=join(\",\",[for k,v in local.common:\"${k}=${v}\"])})\n}\n", i)
	}
	t.Chdir(t.TempDir())
	write(t, "services.hcl", b.String())
	cfg, diags := Input{Paths: []string{"services.hcl"}, budget: maxCost * services / 2000}.Load()
	good(t, cfg, diags)
}
