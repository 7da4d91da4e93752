//go:build !unix

package shared

import "fmt"

// watchLifeline is for systems that let a child inherit a descriptor by
// number. On Windows a Job Object ends the children instead.
func watchLifeline(fd int) (<-chan struct{}, error) {
	return nil, fmt.Errorf("cannot watch the lifeline: %s is not supported on this system", EnvLifeline)
}
