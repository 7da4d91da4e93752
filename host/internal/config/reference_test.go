package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

//go:generate go test -run ^TestReferenceIsOfWhatIsDecoded$ . -update

const (
	referenceBegin = "<!-- reference: %s (made by 'make docs') -->\n"
	referenceEnd   = "<!-- end of reference -->\n"
)

// TestReferenceIsOfWhatIsDecoded compares the tables in the documentation with
// the schema, or writes them anew.
func TestReferenceIsOfWhatIsDecoded(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "configuration.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	made := string(content)
	tables := Language().Reference()
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		begin := fmt.Sprintf(referenceBegin, name)
		before, rest, found := strings.Cut(made, begin)
		_, after, ended := strings.Cut(rest, referenceEnd)
		if !found || !ended {
			t.Errorf("docs/configuration.md has no table of %s. Write a section about it with these two lines in it, and run 'make docs':\n%s%s", name, begin, referenceEnd)
			continue
		}
		made = before + begin + tables[name] + referenceEnd + after
	}
	if made == string(content) {
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Error("docs/configuration.md does not say what the schema in host/internal/config says: run 'make docs', and commit what it makes")
}

// eachAttribute calls do with every argument, and the blocks that it is in.
func eachAttribute(do func(path []Block, a Attribute)) {
	var visit func(path []Block)
	visit = func(path []Block) {
		last := path[len(path)-1]
		for _, a := range last.Attributes {
			do(path, a)
		}
		for _, b := range last.Blocks {
			visit(append(slices.Clone(path), b))
		}
	}
	for _, b := range rootSchema.Blocks {
		visit([]Block{b})
	}
}

func attributeName(path []Block, a Attribute) string {
	var words []string
	for _, b := range path {
		words = append(words, b.Type)
	}
	return strings.Join(append(words, a.Name), ".")
}

func TestEveryArgumentIsDescribed(t *testing.T) {
	types := []Type{
		TypeString, TypeBool, TypeNumber, TypeDuration, TypeSize, TypePath, TypeStrings, TypeMap, TypeReferences, TypeAny, TypeConstraint,
	}
	eachAttribute(func(path []Block, a Attribute) {
		name := attributeName(path, a)
		if !slices.Contains(types, a.Type) {
			t.Errorf("%s has the type %q: take one of %q", name, a.Type, types)
		}
		if a.Doc == "" || strings.HasSuffix(a.Doc, ".") || strings.ContainsAny(a.Doc, "|\n") {
			t.Errorf("%s: Doc must say what it means, in one line without a full stop at its end", name)
		}
		given := 0
		for _, is := range []bool{a.Required, a.Default != "", a.DefaultDoc != ""} {
			if is {
				given++
			}
		}
		if given != 1 {
			t.Errorf(`%s must be Required, or have a Default as it would be written (as in "\"10s\""), or a DefaultDoc in words: one of these`, name)
		}
		if a.Default == "" && a.Example == "" {
			t.Errorf("%s has no constant default, so it needs an Example, as it would be written", name)
		}
		for what, text := range map[string]string{"Default": a.Default, "Example": a.Example} {
			if text == "" {
				continue
			}
			if _, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos); diags.HasErrors() {
				t.Errorf("%s: its %s is no expression: %v", name, what, diags)
			}
		}
	})
}

// needed are the arguments that a block, or the block around an argument, must
// have for the rest of it to be right.
var needed = map[string]map[string]string{
	"service":            {"command": `["sh"]`},
	"service.sessions":   {"exec": `["sh"]`},
	"service.headers":    {"url": `"https://example.com/mcp"`},
	"service.orphan_ttl": {"on_host_exit": `"keep"`},
	"host.gateway.token": {"value": `"0123456789abcdef0123456789abcdef"`},
	"host.gateway.tls":   {"certificate": `"cert.pem"`, "key": `"key.pem"`},
}

// noPlugins are arguments of services that have no command.
var noPlugins = []string{"exec", "sessions", "url", "headers"}

// configurationOf is one in which an argument of the host or of a service has a
// value.
func configurationOf(path []Block, a Attribute, value string) string {
	if path[0].Type != "host" && path[0].Type != "service" {
		return ""
	}
	kind := `"mcp"`
	if path[len(path)-1].Type == "push" { // agents have it alone
		kind = `"agent"`
	}
	text := fmt.Sprintf("%s = %s\n", a.Name, value)
	for argument, value := range needed[attributeName(path, a)] {
		text += fmt.Sprintf("%s = %s\n", argument, value)
	}
	for i, b := range slices.Backward(path) {
		for argument, value := range needed[attributeName(path[:i], Attribute{Name: b.Type})] {
			if last := i == len(path)-1; !last || argument != a.Name && !slices.Contains(noPlugins, a.Name) {
				text += fmt.Sprintf("%s = %s\n", argument, value)
			}
		}
		labels := []string{b.Type, kind, `"a"`}[:1+len(b.Labels)]
		text = fmt.Sprintf("%s {\n%s}\n", strings.Join(labels, " "), text)
	}
	return text + "service \"mcp\" \"clock\" {\n  command = [\"sh\"]\n}\n"
}

func TestDefaultsAreThoseThatAreDocumented(t *testing.T) {
	t.Chdir(t.TempDir())
	eachAttribute(func(path []Block, a Attribute) {
		name := attributeName(path, a)
		if a.Default == "" || name == "service.orphan_ttl" && !canKeep {
			return
		}
		load := func(value string) (Host, []Service) {
			text := configurationOf(path, a, value)
			if text == "" {
				return Host{}, nil
			}
			write(t, "services.hcl", text)
			cfg, diags := Load("services.hcl")
			if cfg == nil {
				t.Fatalf("%s = %s: %v", name, value, diags.Err())
			}
			for i := range cfg.Services {
				cfg.Services[i].Range = hcl.Range{}
			}
			return cfg.Host, cfg.Services
		}
		host, services := load(a.Default)
		if without, others := load("null"); !reflect.DeepEqual(host, without) || !reflect.DeepEqual(services, others) {
			t.Errorf("%s: with its documented default it is %+v %+v, without it %+v %+v", name, host, services, without, others)
		}
	})
}

func TestExamplesAreAccepted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TOKEN", "0123456789abcdef")
	write(t, filepath.Join("bin", "mcp-example"), "")
	if err := os.Chmod(filepath.Join("bin", "mcp-example"), 0o755); err != nil {
		t.Fatal(err)
	}
	executable(t, "path/npx")
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "path")+string(os.PathListSeparator)+os.Getenv("PATH"))
	// These depend on the accounts of the system, on who runs the test, and on
	// files that are not there.
	system := []string{
		"service.user", "service.group", "service.no_new_privs", "host.control.group",
		"host.gateway.tls.certificate", "host.gateway.tls.key", "host.gateway.token.file",
	}
	eachAttribute(func(path []Block, a Attribute) {
		name := attributeName(path, a)
		text := configurationOf(path, a, a.Example)
		if a.Example == "" || text == "" || slices.Contains(system, name) || runtime.GOOS == "windows" {
			return
		}
		write(t, "services.hcl", text)
		if _, diags := Load("services.hcl"); diags.HasErrors() {
			t.Errorf("the example of %s is refused: %v", name, diags.Err())
		}
	})
}

// What nothing reads cannot be wrong.
func TestEveryDescribedArgumentIsDecoded(t *testing.T) {
	t.Chdir(t.TempDir())
	eachAttribute(func(path []Block, a Attribute) {
		text := configurationOf(path, a, "{ a = [[]] }")
		if text == "" {
			return
		}
		write(t, "services.hcl", text)
		if _, diags := Load("services.hcl"); !diags.HasErrors() {
			t.Errorf("%s can be anything: is it decoded?", attributeName(path, a))
		}
	})
}

func TestFunctionsDoWhatIsDocumented(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "token.txt", "x")
	t.Setenv("TOKEN", "x")
	all := allFunctions()
	if !slices.IsSortedFunc(all, func(a, b Function) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the functions are not in order")
	}
	for _, f := range all {
		if f.Doc == "" || !strings.HasPrefix(f.Usage, f.Name+"(") {
			t.Errorf("%s is not described: %+v", f.Name, f)
		}
		result := f.Result
		if result == "" {
			result = f.Example
		}
		write(t, "services.hcl", written(`@ env={A=jsonencode(`+f.Example+`),B=jsonencode(`+result+`)}|}`))
		cfg, diags := Load("services.hcl")
		if cfg == nil {
			t.Errorf("%s: %v", f.Example, diags.Err())
			continue
		}
		if env := service(t, cfg, "mcp.a").Env; env["A"] != env["B"] {
			t.Errorf("%s is %s, want %s", f.Example, env["A"], env["B"])
		}
	}
}
