//go:build unix

package config

// canKeep says whether processes can go on when the host ends.
const canKeep = true
