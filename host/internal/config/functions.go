package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// standardFunctions are those of the cty library.
func standardFunctions() map[string]function.Function {
	return map[string]function.Function{
		"abs":        stdlib.AbsoluteFunc,
		"can":        tryfunc.CanFunc,
		"ceil":       stdlib.CeilFunc,
		"coalesce":   stdlib.CoalesceFunc,
		"compact":    stdlib.CompactFunc,
		"concat":     stdlib.ConcatFunc,
		"contains":   stdlib.ContainsFunc,
		"distinct":   stdlib.DistinctFunc,
		"flatten":    stdlib.FlattenFunc,
		"floor":      stdlib.FloorFunc,
		"format":     stdlib.FormatFunc,
		"join":       stdlib.JoinFunc,
		"jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc,
		"keys":       stdlib.KeysFunc,
		"length":     lengthFunc(),
		"lookup":     stdlib.LookupFunc,
		"lower":      stdlib.LowerFunc,
		"max":        stdlib.MaxFunc,
		"merge":      stdlib.MergeFunc,
		"min":        stdlib.MinFunc,
		"parseint":   stdlib.ParseIntFunc,
		"range":      stdlib.RangeFunc,
		"regex":      stdlib.RegexFunc,
		"replace":    stdlib.ReplaceFunc,
		"sort":       stdlib.SortFunc,
		"split":      stdlib.SplitFunc,
		"substr":     stdlib.SubstrFunc,
		"tobool":     stdlib.MakeToFunc(cty.Bool),
		"tonumber":   stdlib.MakeToFunc(cty.Number),
		"tostring":   stdlib.MakeToFunc(cty.String),
		"trim":       stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc,
		"trimspace":  stdlib.TrimSpaceFunc,
		"trimsuffix": stdlib.TrimSuffixFunc,
		"try":        tryfunc.TryFunc,
		"upper":      stdlib.UpperFunc,
		"values":     stdlib.ValuesFunc,
	}
}

// functions are what expressions in a file of the directory can call.
func functions(dir string) map[string]function.Function {
	all := standardFunctions()
	maps.Copy(all, map[string]function.Function{
		"env":        envFunc(),
		"file":       fileFunc(dir),
		"fileexists": fileExistsFunc(dir),
		"sensitive":  sensitiveFunc(),
	})
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
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	text, err := readLimited(path)
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
