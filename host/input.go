package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
)

// defaultConfig is read where --config is not given.
const defaultConfig = "services.hcl"

// addInputFlags adds the flags that say what a configuration is read from.
func addInputFlags(cmd *cobra.Command, in *config.Input) {
	cmd.Flags().StringArrayVarP(&in.Paths, "config", "c", []string{defaultConfig},
		"configuration file or directory; may be given several times")
	cmd.Flags().StringArrayVar(&in.Vars, "var", nil,
		"give a variable a value, as NAME=VALUE; may be given several times")
	cmd.Flags().StringArrayVar(&in.VarFiles, "var-file", nil,
		"file (.hcl or .json) that gives variables values; may be given several times")
}

// inputFlags are the flags of an input.
func inputFlags(in config.Input) []string {
	var flags []string
	add := func(flag string, values []string) {
		for _, value := range values {
			flags = append(flags, flag, value)
		}
	}
	add("--config", in.Paths)
	add("--var-file", in.VarFiles)
	add("--var", in.Vars)
	return flags
}

// inputGiven reports whether a command was told what to read.
func inputGiven(cmd *cobra.Command) bool { return cmd.Flags().Changed("config") }

// errNoConfig says that there is nothing to read, and nobody said what.
var errNoConfig = fmt.Errorf("there is no %s in the working directory: name the configuration with --config FILE", defaultConfig)

// requireInput returns errNoConfig if a command that was not told what to read
// finds nothing.
func requireInput(cmd *cobra.Command) error {
	if inputGiven(cmd) {
		return nil
	}
	if _, err := os.Stat(defaultConfig); errors.Is(err, fs.ErrNotExist) {
		return errNoConfig
	}
	return nil
}

// loadConfig reads a configuration. What is wrong with it is written to
// standard error, and the error is errReported then; mere warnings are left to
// the caller to write.
func loadConfig(in config.Input) (*config.Config, *config.Diagnostics, error) {
	conf, diags := in.Load()
	if !diags.HasErrors() {
		return conf, diags, nil
	}
	if err := writeDiagnostics(os.Stderr, diags); err != nil {
		return nil, nil, err
	}
	return nil, nil, errReported
}

// absolute is an input as it is for a process in another directory.
func absolute(in config.Input) (config.Input, error) {
	paths, err := absolutePaths(in.Paths)
	if err != nil {
		return in, err
	}
	files, err := absolutePaths(in.VarFiles)
	return config.Input{Paths: paths, Vars: in.Vars, VarFiles: files}, err
}

func absolutePaths(paths []string) ([]string, error) {
	absolute := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if absolute[i], err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	return absolute, nil
}
