package config

import "github.com/hashicorp/hcl/v2"

// Input is what a configuration is read from.
type Input struct {
	// Paths are the files and directories of the configuration.
	Paths []string `json:"paths,omitempty"`

	// Vars give values to variables, each as NAME=VALUE; a later one wins. They
	// go before VarFiles, and these before the host's environment.
	Vars []string `json:"vars,omitempty"`

	// VarFiles are files that give values to variables, in HCL or JSON; a later
	// one wins.
	VarFiles []string `json:"varFiles,omitempty"`

	budget int // units that the evaluation may cost, if not maxCost
}

// Load reads a configuration from files and directories, which all declare into
// one namespace. A file ends in .hcl, or in .hcl.json for the JSON form of the
// language. Of a directory all such files are read, in lexical order and without
// its subdirectories; names like .x, x~ and #x# are passed over. A file that is
// named twice is read once. The environment is the process's own.
//
// The configuration is nil if there is any error. The diagnostics are never nil;
// they may hold warnings beside a good configuration.
func (in Input) Load() (*Config, *Diagnostics) {
	l := &loader{files: make(map[string]*hcl.File), seen: make(map[string]bool)}
	if len(in.Paths) == 0 {
		l.diags.errorf(hcl.Range{}, "No configuration", "Name a file that ends in %s or %s, or a directory of such files.", nativeSuffix, jsonSuffix)
	}
	for _, path := range in.Paths {
		l.path(path)
	}
	cfg := l.decode(in)
	diags := l.diags.finish(l.names, l.files)
	if diags.HasErrors() {
		return nil, diags
	}
	cfg.Files, cfg.secrets, cfg.warnings = l.files, &l.diags.secrecy, diags.list
	return cfg, diags
}

// Load reads a configuration from files and directories alone.
func Load(paths ...string) (*Config, *Diagnostics) { return Input{Paths: paths}.Load() }
