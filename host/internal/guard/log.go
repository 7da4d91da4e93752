package guard

import (
	"bytes"
	"log"

	"github.com/hashicorp/go-hclog"
)

// serverLog takes what net/http has to say. Nearly all of it is what clients do
// wrong, such as scanners that speak no TLS.
func serverLog(to hclog.Logger) *log.Logger { return log.New(serverLines{to}, "", 0) }

type serverLines struct{ log hclog.Logger }

func (l serverLines) Write(line []byte) (int, error) {
	level := hclog.Debug
	if bytes.Contains(line, []byte("panic serving")) {
		level = hclog.Error
	}
	l.log.Log(level, "the gateway's HTTP server", "says", string(bytes.TrimSpace(line)))
	return len(line), nil
}
