//go:build !unix

package config

// canKeep says whether processes can go on when the host ends. On Windows a Job
// Object ends them.
const canKeep = false
