package config

import "github.com/hashicorp/hcl/v2"

// Bounds of the logs block.
const (
	defaultLogSize  = 10 << 20
	minLogSize      = 64 << 10
	defaultLogFiles = 5
	maxLogFiles     = 100
)

var logsSchema = Block{
	Type: "logs",
	Doc:  "What the log of each service may take of the disk: `max_size` times `max_files`, for each.",
	Attributes: []Attribute{
		{Name: "max_size", Type: TypeSize, Default: `"10MiB"`, Range: "at least `64KiB`", Doc: "how large a file may be before the next one is begun"},
		{
			Name: "max_files", Type: TypeNumber, Default: "5", Unit: "files", Range: "1 to 100",
			Doc: "how many files are kept, with the one that is written. Older ones are removed, also those that are there when the host starts",
		},
	},
}

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
