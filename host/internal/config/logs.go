package config

import "github.com/hashicorp/hcl/v2"

// Bounds of the logs block.
const (
	defaultLogSize  = 10 << 20
	minLogSize      = 64 << 10
	defaultLogFiles = 5
	maxLogFiles     = 100
)

var logsSchema = attributes("max_size", "max_files")

// Logs bounds what the log of each service takes of the disk.
type Logs struct {
	// MaxSize is how many bytes a file of it may have. Default 10 MiB.
	MaxSize int64
	// MaxFiles is how many files are kept, with the one that is written.
	// Default 5.
	MaxFiles int
}

func defaultLogs() Logs { return Logs{MaxSize: defaultLogSize, MaxFiles: defaultLogFiles} }

func (d *decoder) logs(block *hcl.Block) Logs {
	attrs := d.attrs(block, logsSchema)
	return Logs{
		MaxSize:  d.size(attrs, "max_size", defaultLogSize, minLogSize).V,
		MaxFiles: d.whole(attrs, "max_files", defaultLogFiles, 1, maxLogFiles).V,
	}
}
