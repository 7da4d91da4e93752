package config

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns a file in native syntax in its canonical layout: only the
// space between its words changes. A file that cannot be parsed, or that would
// mean something else in that layout, has errors; name is what they call it.
func Format(name string, src []byte) ([]byte, *Diagnostics) {
	l := &loader{files: make(map[string]*hcl.File), names: []string{name}}
	if !l.parse(&source{name: name}, src) {
		return nil, l.diags.finish(l.names, l.files)
	}
	text, marked := bytes.CutPrefix(src, byteOrderMark)
	formatted := hclwrite.Format(text)
	if at, same := sameWords(text, formatted, name); !same {
		l.diags.errorf(at, "Cannot be formatted",
			"In the canonical layout this would not mean the same. Lay it out by hand, or write it in another way.")
	}
	if marked {
		formatted = slices.Concat(byteOrderMark, formatted)
	}
	return formatted, l.diags.finish(l.names, l.files)
}

// sameWords reports whether two texts are the same to the parser, or where in
// the first they begin to differ.
func sameWords(before, after []byte, name string) (at hcl.Range, same bool) {
	old, _ := hclsyntax.LexConfig(before, name, hcl.InitialPos)
	changed, _ := hclsyntax.LexConfig(after, name, hcl.InitialPos)
	for i, token := range old {
		if i >= len(changed) || token.Type != changed[i].Type || !bytes.Equal(word(token), word(changed[i])) {
			return token.Range, false
		}
	}
	return hcl.Range{}, len(old) == len(changed)
}

// word is what counts of a token: not the space around it, unless it is a part
// of a string.
func word(token hclsyntax.Token) []byte {
	switch token.Type {
	case hclsyntax.TokenStringLit, hclsyntax.TokenQuotedLit:
		return token.Bytes
	default:
		return bytes.TrimSpace(token.Bytes)
	}
}

// NativeFiles returns the configuration files in native syntax that a path
// stands for: itself or, for a directory, those which Load reads there.
func NativeFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if name := entry.Name(); isConfigName(name) && filepath.Ext(name) == nativeSuffix && !entry.IsDir() {
			files = append(files, filepath.Join(path, name))
		}
	}
	return files, nil
}
