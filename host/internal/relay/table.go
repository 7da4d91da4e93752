package relay

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/plughost/plughost/shared/wire"
)

// pageSize is how many of a list come at once.
const pageSize = 1000

// table is what several services have, by the names that clients know. It does
// not change.
type table struct {
	// lists are in the order of the names and, where services have the same
	// URI, in the order of the services.
	lists [kindCount][]*entry
	// names hold those of each kind that have one name, in the order of the
	// services.
	names [kindCount]map[string][]*entry
	// templates are in the order of the services.
	templates []*entry
}

// newTable makes a table of what services have, in their order.
func newTable(services []*Service, has map[*Service]features) *table {
	t := &table{}
	for k := range t.lists {
		t.names[k] = make(map[string][]*entry)
		for _, service := range services {
			t.lists[k] = append(t.lists[k], has[service].lists[k]...)
		}
		for _, e := range t.lists[k] {
			t.names[k][e.name] = append(t.names[k][e.name], e)
		}
		if kind(k) == kindTemplates {
			t.templates = slices.Clone(t.lists[k])
		}
		slices.SortStableFunc(t.lists[k], func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	}
	return t
}

// shows reports whether one who has some grants sees an entry of a kind.
func shows(g Grants, k kind, e *entry) bool {
	if k == kindTools {
		return g.Tool(e.service.name, e.own)
	}
	return g.Service(e.service.name)
}

// named returns the one of a name, or nil. Two services may have the same
// resource: it is the first one's that may be reached.
func (t *table) named(g Grants, k kind, name string) *entry {
	for _, e := range t.names[k][name] {
		if shows(g, k, e) {
			return e
		}
	}
	return nil
}

// resource returns what has a URI, or nil: a resource goes before templates, and
// among these the first service that has one.
func (t *table) resource(g Grants, uri string) *entry {
	if e := t.named(g, kindResources, uri); e != nil {
		return e
	}
	for _, e := range t.templates {
		if shows(g, kindTemplates, e) && e.matches(uri) {
			return e
		}
	}
	return nil
}

// visible is a list as one sees it who has some grants.
func (t *table) visible(g Grants, k kind) []*entry { return t.after(g, k, "", len(t.lists[k])) }

// after returns as much of a list as is wanted of what comes after a name.
func (t *table) after(g Grants, k kind, name string, most int) (shown []*entry) {
	rest, _ := slices.BinarySearchFunc(t.lists[k], name, func(e *entry, name string) int {
		if e.name <= name {
			return -1
		}
		return 1
	})
	for _, e := range t.lists[k][rest:] {
		if len(shown) == most {
			break
		}
		again := len(shown) > 0 && shown[len(shown)-1].name == e.name
		if !again && shows(g, k, e) {
			shown = append(shown, e)
		}
	}
	return shown
}

// page is the part of a list that a cursor means, the first one if it is empty,
// and the cursor of the next one, or empty.
func (t *table) page(g Grants, k kind, cursor string) (shown []*entry, next string, err error) {
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, "", refusef(wire.CodeInvalidParams, "there is no such cursor")
	}
	shown = t.after(g, k, string(last), pageSize+1)
	if len(shown) > pageSize {
		shown = shown[:pageSize]
		next = base64.RawURLEncoding.EncodeToString([]byte(shown[pageSize-1].name))
	}
	return shown, next, nil
}

// differing are the lists that are different in two tables, each as one sees it
// who has some grants, by the names that notifications have for them.
func differing(before *table, then Grants, after *table, now Grants) (lists []string) {
	for k, listing := range listings {
		same := slices.EqualFunc(before.visible(then, kind(k)), after.visible(now, kind(k)), func(a, b *entry) bool {
			return a == b || bytes.Equal(a.object, b.object)
		})
		if !same && !slices.Contains(lists, listing.capability) {
			lists = append(lists, listing.capability)
		}
	}
	return lists
}
