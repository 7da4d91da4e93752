package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// maxExpanded bounds a schema with all its references followed, in JSON values:
// what a few lines can multiply, validating would take for ever.
const maxExpanded = 10_000

// expander follows the references of a schema.
type expander struct {
	root any
	// sizes are those of what was referred to, and 0 for what is being followed.
	sizes map[string]int
}

// checkExpansion refuses a schema that would be too large if every reference in
// it was replaced by what it refers to, or endless.
func checkExpansion(schema any) error {
	e := &expander{root: schema, sizes: make(map[string]int)}
	_, err := e.size(schema)
	return err
}

func (e *expander) size(doc any) (total int, err error) {
	total = 1
	add := func(n int, sizeErr error) bool {
		total += n
		if err = sizeErr; err == nil && total > maxExpanded {
			err = fmt.Errorf("with its references followed it has more than %d values", maxExpanded)
		}
		return err == nil
	}
	switch doc := doc.(type) {
	case map[string]any:
		for name, v := range doc {
			if !add(e.member(name, v)) {
				return total, err
			}
		}
	case []any:
		for _, v := range doc {
			if !add(e.size(v)) {
				return total, err
			}
		}
	}
	return total, nil
}

// member is the size of a member of an object: what a reference refers to, or
// the value itself. A property may have the name of a keyword; its value is no
// text.
func (e *expander) member(name string, v any) (int, error) {
	to, ok := v.(string)
	switch {
	case ok && name == "$ref":
		return e.reference(to)
	case ok && (name == "$dynamicRef" || name == "$recursiveRef"):
		return 0, fmt.Errorf("%s is not supported", name)
	}
	return e.size(v)
}

func (e *expander) reference(to string) (int, error) {
	if size, seen := e.sizes[to]; seen {
		if size == 0 {
			return 0, fmt.Errorf("%q refers to itself", to)
		}
		return size, nil
	}
	doc, err := lookUp(e.root, to)
	if err != nil {
		return 0, err
	}
	e.sizes[to] = 0
	size, err := e.size(doc)
	e.sizes[to] = size
	return size, err
}

// lookUp finds what a JSON pointer in a URI fragment leads to.
func lookUp(doc any, reference string) (any, error) {
	fragment, ok := strings.CutPrefix(reference, "#")
	pointer, err := url.PathUnescape(fragment)
	if !ok || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("it refers to %q: only references within the schema, such as #/$defs/x, are followed", reference)
	}
	if pointer == "" {
		return doc, nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, step := range strings.Split(pointer[1:], "/") {
		if doc, ok = child(doc, unescape.Replace(step)); !ok {
			return nil, fmt.Errorf("it refers to %q, which is not there", reference)
		}
	}
	return doc, nil
}

func child(doc any, name string) (any, bool) {
	switch doc := doc.(type) {
	case map[string]any:
		v, ok := doc[name]
		return v, ok
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(doc) {
			return doc[i], true
		}
	}
	return nil, false
}
