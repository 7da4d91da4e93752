package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Function describes a function of the language.
type Function struct {
	Name string `json:"name"`
	// Usage is a call, with its parameters in capitals.
	Usage string `json:"usage"`
	// Doc says what the result is, in Markdown.
	Doc     string `json:"description"`
	Example string `json:"example"`
	// Result is that of the example, or empty if it depends on the machine.
	Result string `json:"result,omitempty"`

	// in makes the function for files of a directory.
	in func(dir string) function.Function
}

// allFunctions are all that there are, by name.
func allFunctions() []Function {
	return []Function{
		{"abs", "abs(NUMBER)", "the number without its sign", "abs(-3)", "3", always(stdlib.AbsoluteFunc)},
		{"can", "can(EXPRESSION)", "whether the expression has a value", `can(tonumber("x"))`, "false", always(tryfunc.CanFunc)},
		{"ceil", "ceil(NUMBER)", "the next whole number from it on", "ceil(5 / 2)", "3", always(stdlib.CeilFunc)},
		{"coalesce", "coalesce(VALUE...)", "the first of the values that is not null", `coalesce(null, "b")`, `"b"`, always(stdlib.CoalesceFunc)},
		{"compact", "compact(LIST)", "the list without empty strings", `compact(["a", ""])`, `["a"]`, always(stdlib.CompactFunc)},
		{"concat", "concat(LIST...)", "one list of all elements", "concat([1], [2])", "[1, 2]", always(stdlib.ConcatFunc)},
		{"contains", "contains(LIST, VALUE)", "whether the value is in the list", `contains(["a"], "a")`, "true", always(stdlib.ContainsFunc)},
		{"distinct", "distinct(LIST)", "the list without repetitions", `distinct(["a", "a"])`, `["a"]`, always(stdlib.DistinctFunc)},
		{"env", "env(NAME, DEFAULT)", "a variable of the host's environment. Without a default it must be set", `env("NO_SUCH_VARIABLE", "none")`, `"none"`, always(envFunc())},
		{"file", "file(PATH)", "the text of a file of at most 1 MiB. A relative path begins at the file that it stands in", `file("token.txt")`, "", fileFunc},
		{"fileexists", "fileexists(PATH)", "whether there is a file; the path is as for `file`", `fileexists("token.txt")`, "", fileExistsFunc},
		{"flatten", "flatten(LIST)", "the list with the elements of its lists in their place", "flatten([[1], [2, [3]]])", "[1, 2, 3]", always(stdlib.FlattenFunc)},
		{"floor", "floor(NUMBER)", "the next whole number down", "floor(5 / 2)", "2", always(stdlib.FloorFunc)},
		{"format", "format(FORMAT, VALUE...)", "the values as `%s`, `%d`, `%05.1f` and the like say", `format("%s-%03d", "a", 7)`, `"a-007"`, always(stdlib.FormatFunc)},
		{"join", "join(SEPARATOR, LIST)", "the elements in one string", `join(",", ["a", "b"])`, `"a,b"`, always(stdlib.JoinFunc)},
		{"jsondecode", "jsondecode(TEXT)", "what a JSON text says", `jsondecode("[1]")`, "[1]", always(stdlib.JSONDecodeFunc)},
		{"jsonencode", "jsonencode(VALUE)", "the value as JSON", "jsonencode([1, null])", `"[1,null]"`, always(stdlib.JSONEncodeFunc)},
		{"keys", "keys(MAP)", "its keys, sorted", "keys({ a = 1 })", `["a"]`, always(stdlib.KeysFunc)},
		{"length", "length(VALUE)", "how many characters a string has, or elements a list or map", `length("é")`, "1", always(lengthFunc())},
		{"lookup", "lookup(MAP, KEY, DEFAULT)", "what the map has at the key", `lookup({ a = 1 }, "b", 0)`, "0", always(stdlib.LookupFunc)},
		{"lower", "lower(TEXT)", "the text in small letters", `lower("A")`, `"a"`, always(stdlib.LowerFunc)},
		{"max", "max(NUMBER...)", "the greatest", "max(1, 2)", "2", always(stdlib.MaxFunc)},
		{"merge", "merge(MAP...)", "one map of all; what comes later wins", "merge({ a = 1 }, { a = 2 })", "{ a = 2 }", always(stdlib.MergeFunc)},
		{"min", "min(NUMBER...)", "the least", "min(1, 2)", "1", always(stdlib.MinFunc)},
		{"parseint", "parseint(TEXT, BASE)", "the whole number that is written to a base from 2 to 62", `parseint("ff", 16)`, "255", always(stdlib.ParseIntFunc)},
		{"range", "range(FROM, TO, STEP)", "the numbers from one to before another; 1024 at most", "range(1, 3)", "[1, 2]", always(stdlib.RangeFunc)},
		{"regex", "regex(PATTERN, TEXT)", "the first match of a regular expression, as RE2 has it, or its groups; a fault if there is none", `regex("[0-9]+", "a12")`, `"12"`, always(stdlib.RegexFunc)},
		{"replace", "replace(TEXT, OLD, NEW)", "the text with a new piece for every old one", `replace("a.b", ".", "-")`, `"a-b"`, always(stdlib.ReplaceFunc)},
		{"sensitive", "sensitive(VALUE)", "the value, [not to be shown](#sensitive-values)", `sensitive(env("TOKEN"))`, "", always(sensitiveFunc())},
		{"sort", "sort(LIST)", "the strings in order", `sort(["b", "a"])`, `["a", "b"]`, always(stdlib.SortFunc)},
		{"split", "split(SEPARATOR, TEXT)", "the pieces between the separators", `split(",", "a,b")`, `["a", "b"]`, always(stdlib.SplitFunc)},
		{"substr", "substr(TEXT, OFFSET, LENGTH)", "a piece of the text, in characters", `substr("hello", 1, 3)`, `"ell"`, always(stdlib.SubstrFunc)},
		{"tobool", "tobool(VALUE)", "the value as a boolean", `tobool("true")`, "true", always(stdlib.MakeToFunc(cty.Bool))},
		{"tonumber", "tonumber(VALUE)", "the value as a number", `tonumber("7")`, "7", always(stdlib.MakeToFunc(cty.Number))},
		{"tostring", "tostring(VALUE)", "the value as a string", "tostring(7)", `"7"`, always(stdlib.MakeToFunc(cty.String))},
		{"trim", "trim(TEXT, CHARACTERS)", "the text without these characters at its ends", `trim("--a-", "-")`, `"a"`, always(stdlib.TrimFunc)},
		{"trimprefix", "trimprefix(TEXT, PREFIX)", "the text without the prefix", `trimprefix("v1", "v")`, `"1"`, always(stdlib.TrimPrefixFunc)},
		{"trimspace", "trimspace(TEXT)", "the text without space at its ends", `trimspace(" a ")`, `"a"`, always(stdlib.TrimSpaceFunc)},
		{"trimsuffix", "trimsuffix(TEXT, SUFFIX)", "the text without the suffix", `trimsuffix("a.go", ".go")`, `"a"`, always(stdlib.TrimSuffixFunc)},
		{"try", "try(EXPRESSION...)", "the first that has a value", `try(tonumber("x"), 9)`, "9", always(tryfunc.TryFunc)},
		{"upper", "upper(TEXT)", "the text in capital letters", `upper("a")`, `"A"`, always(stdlib.UpperFunc)},
		{"values", "values(MAP)", "its values, in the order of their keys", "values({ a = 1 })", "[1]", always(stdlib.ValuesFunc)},
	}
}

// always is a function that is the same in all directories.
func always(f function.Function) func(string) function.Function {
	return func(string) function.Function { return f }
}

// functions are what expressions in a file of the directory can call, within the
// budget.
func functions(dir string, b *budget) map[string]function.Function {
	all := make(map[string]function.Function)
	for _, f := range allFunctions() {
		all[f.Name] = b.bound(f.Name, f.in(dir))
	}
	return all
}

// lengthFunc counts the characters of a text, or the elements of a collection.
func lengthFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v := args[0]
			switch t := v.Type(); {
			case t == cty.String:
				return stdlib.Strlen(v)
			case t.IsTupleType(), t.IsObjectType(), t.IsCollectionType():
				return cty.NumberIntVal(int64(v.LengthInt())), nil
			default:
				return cty.NilVal, function.NewArgErrorf(0, "a text, a list or a map is wanted")
			}
		},
	})
}

// envFunc reads a variable of the environment.
func envFunc() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 2 {
				return cty.NilType, function.NewArgErrorf(2, "there can be only a name and a default")
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			if text, ok := os.LookupEnv(name); ok {
				return cty.StringVal(text), nil
			}
			if len(args) == 2 {
				return args[1], nil
			}
			return cty.NilVal, function.NewArgErrorf(0, "the variable %s is not set in the environment; give a default, as in env(%s, \"\")", name, quote(name))
		},
	})
}

// fileFunc reads a file; a relative path begins at the directory.
func fileFunc(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := beside(dir, args[0].AsString())
			text, err := readFile(path)
			if err != nil {
				return cty.NilVal, function.NewArgErrorf(0, "%s: %s", quote(path), reason(err))
			}
			return cty.StringVal(text), nil
		},
	})
}

// fileExistsFunc reports whether there is a file at a path.
func fileExistsFunc(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			info, err := os.Stat(beside(dir, args[0].AsString()))
			return cty.BoolVal(err == nil && info.Mode().IsRegular()), nil
		},
	})
}

func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func readFile(path string) (string, error) {
	text, err := readRegular(path)
	switch {
	case err != nil:
		return "", err
	case len(text) > maxFileSize:
		return "", fmt.Errorf("it has more than %s", sizeText(maxFileSize))
	case !utf8.Valid(text):
		return "", errors.New("it is not UTF-8 text")
	}
	return string(text), nil
}

// sensitiveFunc marks a value as one that is shown nowhere.
func sensitiveFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0].Mark(sensitiveMark), nil },
	})
}
