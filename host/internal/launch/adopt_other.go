//go:build !unix

package launch

import (
	"errors"
	"os"
)

// namedPipes stands for the pipes of an adopted plugin. Here none outlives its
// host.
type namedPipes struct {
	stdout, stderr, lifeline             *os.File
	stdoutName, stderrName, lifelineName string
}

func openNamedPipes(string) (*namedPipes, error) { return nil, errors.ErrUnsupported }

func (p *namedPipes) close() {}

func openOutput(path string) (*os.File, error) { return nil, errors.ErrUnsupported }

func (p *namedPipes) remove() {}
