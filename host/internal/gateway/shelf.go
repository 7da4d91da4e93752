package gateway

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// item is a feature of a service as a view shows it.
type item[T any] struct {
	owner   *upstream
	name    string // what its service calls it
	feature *T
}

// claim makes i what a view shows under a name, unless another has the name.
// Resources keep their URIs, and two services may use the same: the one that
// comes first in the configuration has it, whichever is ready first.
func claim[T any](items map[string]item[T], name string, i item[T]) {
	if _, taken := items[name]; !taken {
		items[name] = i
	}
}

// shelf is what a view shows of one kind of feature, by the names that its
// clients know.
type shelf[T any] struct {
	shown  map[string]item[T]
	add    func(item[T]) // panics at what cannot be shown, as the SDK does
	remove func(names ...string)
}

// fill makes the shelf hold exactly items. What is there already is not
// touched, so that clients are told only of real changes.
func (s *shelf[T]) fill(items map[string]item[T], log hclog.Logger) {
	shown := make(map[string]item[T], len(items))
	for _, name := range slices.Sorted(maps.Keys(items)) {
		i := items[name]
		old, ok := s.shown[name]
		if ok && old.owner == i.owner && reflect.DeepEqual(old.feature, i.feature) {
			shown[name] = old
			continue
		}
		if err := s.put(i); err != nil {
			log.Warn("cannot show what a plugin has", "service", "mcp."+i.owner.name, "name", i.name, "reason", err)
			continue
		}
		shown[name] = i
	}
	for name := range s.shown {
		if _, stays := shown[name]; !stays {
			s.remove(name)
		}
	}
	s.shown = shown
}

// put adds an item. What plugins send is not to be trusted, and the SDK panics
// at a schema or URI that it does not like.
func (s *shelf[T]) put(i item[T]) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	s.add(i)
	return nil
}
