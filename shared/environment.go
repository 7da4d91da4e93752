package shared

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the host passes to a plugin beside its marker and go-plugin's own
// variables.
const (
	// EnvPort is the TCP port that the plugin serves its protocol on over
	// HTTP, on 127.0.0.1. Unset when the service has no port.
	EnvPort = "PLUGHOST_PORT"
	// EnvLifeline is the number of an inherited file descriptor, the read end
	// of a pipe whose write end only the host holds. Its end of file means
	// that the host is gone.
	EnvLifeline = "PLUGHOST_LIFELINE"
	// EnvOrphanTTL has the plugin go on when the host is gone, for the time that
	// it holds as time.ParseDuration reads it, so that the next host can adopt
	// it. Unset, the plugin ends with the host.
	EnvOrphanTTL = "PLUGHOST_ORPHAN_TTL"
	// EnvInstanceDir is a directory of mode 0700 that belongs to this
	// instance and is removed with it. It holds the plugin's socket and the
	// TLS files named below.
	EnvInstanceDir = "PLUGHOST_INSTANCE_DIR"
	// EnvConfigFile is for a plugin that is run by hand, which no host
	// configures: it names a file with its configuration, a JSON object.
	EnvConfigFile = "PLUGHOST_CONFIG_FILE"
)

// TLS files in the instance directory, all PEM.
const (
	// CAFile is the installation's certificate authority. A plugin accepts
	// only clients with a certificate of it that is good for client
	// authentication: the host's.
	CAFile = "ca.pem"
	// CertFile is the plugin's certificate, for server authentication.
	CertFile = "cert.pem"
	// KeyFile is the private key of the certificate in CertFile.
	KeyFile = "key.pem"
)

// Hosted reports whether this process was launched by a plughost host. It is
// true only until Serve has begun to serve, which takes the cookie out of the
// environment so that the plugin's own children are not taken for hosted ones.
func Hosted() bool {
	return os.Getenv(cookieKey) == cookieValue
}

// environment is what a hosted plugin read of its variables.
type environment struct {
	port        int           // 0: none
	lifeline    int           // 0: none
	orphanTTL   time.Duration // 0: it ends with the host
	instanceDir string
}

func readEnvironment(getenv func(string) string) (environment, error) {
	env := environment{instanceDir: getenv(EnvInstanceDir)}
	var err error
	if env.port, err = number(getenv, EnvPort, 65535); err != nil {
		return environment{}, err
	}
	if env.lifeline, err = number(getenv, EnvLifeline, 1<<20); err != nil {
		return environment{}, err
	}
	if ttl := getenv(EnvOrphanTTL); ttl != "" {
		if env.orphanTTL, err = time.ParseDuration(ttl); err != nil || env.orphanTTL <= 0 {
			return environment{}, fmt.Errorf("%s is %q, not a span of time", EnvOrphanTTL, ttl)
		}
	}
	if env.instanceDir == "" {
		return environment{}, fmt.Errorf("%s is not set: the host that launched this plugin is not plughost, or too old", EnvInstanceDir)
	}
	return env, nil
}

func number(getenv func(string) string, name string, most int) (int, error) {
	value := getenv(name)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is %q, not a number from 1 to %d", name, value, most)
	}
	return n, nil
}

func (e environment) file(name string) string {
	return filepath.Join(e.instanceDir, name)
}

// forget removes from the environment what is meant for this process alone.
// The marker stays: by it the host finds the plugin's children. (What the
// kernel shows of the environment is the block of the exec, which unsetting
// does not change on Linux.)
func forget() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); own(name) {
			_ = os.Unsetenv(name)
		}
	}
}

// ChildEnvironment is the environment for a process that the plugin starts,
// also before Serve: without what is meant for the plugin alone, and with the
// marker, by which the host finds the process.
func ChildEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return own(name)
	})
}

// own reports whether a variable is meant for the plugin's own process alone.
func own(name string) bool {
	switch name {
	case cookieKey, EnvLifeline, EnvOrphanTTL, EnvInstanceDir:
		return true
	default:
		return strings.HasPrefix(name, "PLUGIN_")
	}
}
