package marker_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

// reference judges an environment by the rules alone, in the plainest way: the
// parsers have to agree with it.
func reference(env []string) (marker.Identity, error) {
	values := map[string][]string{}
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok {
			continue
		}
		switch name {
		case "PLUGHOST_SUBPROCESS", "PLUGHOST_MCP_SERVICE", "PLUGHOST_AGENT",
			"PLUGHOST_INSTALLATION", "PLUGHOST_INSTANCE", "PLUGHOST_HOST":
			values[name] = append(values[name], value)
		}
	}
	if len(values) == 0 {
		return marker.Identity{}, marker.ErrUnmarked
	}
	for _, v := range values {
		if len(v) != 1 || v[0] == "" {
			return marker.Identity{}, marker.ErrMalformed
		}
	}
	one := func(name string) string {
		if v := values[name]; v != nil {
			return v[0]
		}
		return ""
	}
	if h := one("PLUGHOST_HOST"); h != "" && len(values) == 1 {
		return marker.Identity{Kind: "host", Installation: h}, nil
	}
	id := marker.Identity{Installation: one("PLUGHOST_INSTALLATION"), Instance: one("PLUGHOST_INSTANCE")}
	m, a := one("PLUGHOST_MCP_SERVICE"), one("PLUGHOST_AGENT")
	switch {
	case m != "" && a == "":
		id.Kind, id.Service = "mcp", m
	case a != "" && m == "":
		id.Kind, id.Service = "agent", a
	}
	if one("PLUGHOST_SUBPROCESS") != "1" || id.Kind == "" || id.Installation == "" || id.Instance == "" {
		return marker.Identity{}, marker.ErrMalformed
	}
	return id, nil
}

// agree fails the test unless all readings of an environment agree.
func agree(t *testing.T, env []string) {
	t.Helper()
	want, wantErr := reference(env)
	b := block(env...)
	got, err := marker.Parse(b)
	if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("Parse(%q) = %+v, %v; want %+v, %v", b, got, err, want, wantErr)
	}
	got, err = marker.ParseList(env)
	if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("ParseList(%q) = %+v, %v; want %+v, %v", env, got, err, want, wantErr)
	}
	if marked := !errors.Is(wantErr, marker.ErrUnmarked); marker.Scan(b) != marked {
		t.Fatalf("Scan(%q) = %t, want %t", b, !marked, marked)
	}
}

func TestParseAgreesWithReference(t *testing.T) {
	names := append(marker.Names(), "PLUGHOST_", "PLUGHOST_PORT", "PATH", "", "XPLUGHOST_HOST", "PLUGHOST_PLUGHOST_HOST")
	values := []string{"1", "1", "a", "", "PLUGHOST_HOST=x", "PLUGHOST_", "=", "b=c"}
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var env []string
		// Half of them begin with a good set, so that good ones are not rare.
		if r.IntN(2) == 0 {
			env = append(env, []marker.Identity{mcp, agent, host}[r.IntN(3)].Environ()...)
		}
		for range r.IntN(6) {
			entry := names[r.IntN(len(names))]
			if r.IntN(8) > 0 {
				entry += "=" + values[r.IntN(len(values))]
			}
			env = append(env, entry)
		}
		r.Shuffle(len(env), func(i, j int) { env[i], env[j] = env[j], env[i] })
		agree(t, env)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(block(append([]string{"A=b"}, mcp.Environ()...)...))
	f.Add(block(agent.Environ()...))
	f.Add(block(host.Environ()...))
	f.Add([]byte("PLUGHOST_PLUGHOST_HOST=1\x00\x00PLUGHOST_HOST"))
	f.Add([]byte("\x00PLUGHOST_HOST=1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		agree(t, strings.Split(string(b), "\x00"))
	})
}
