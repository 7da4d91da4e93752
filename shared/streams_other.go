//go:build !unix

package shared

import (
	"errors"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// streams are where the plugin's output goes. No host has a plugin outlive it
// on these systems.
type streams struct{ dir string }

func newStreams(dir string) *streams { return &streams{dir} }

func (s *streams) toFile() {}

func (s *streams) boundFile() {}

func (s *streams) release() {}

func (s *streams) adopt(*plughostv1.AdoptRequest) (<-chan struct{}, []string, error) {
	return nil, nil, errors.ErrUnsupported
}
