package config

import (
	"net/url"
	"testing"
)

func TestPushAllowsWhatItNames(t *testing.T) {
	p := Push{Allow: []string{"https://hooks.example.org", "http://127.0.0.1:8080", "https://*.example.net", "http://*"}}
	for _, test := range []struct {
		url            string
		allowed, named bool
	}{
		{"https://hooks.example.org/a?b", true, true},
		{"HTTPS://Hooks.Example.ORG/", true, true},
		{"https://hooks.example.org:8443/", false, false},
		{"http://127.0.0.1:8080/x", true, true},
		{"https://127.0.0.1:8080/x", false, false},
		{"https://a.example.net/", true, false},
		{"https://a.b.example.net/", true, false},
		{"https://example.net/", false, false},
		{"https://evil.org:1.example.net/", false, false},
		{"https://evilexample.net/", false, false},
		{"http://anything.org/", true, false},
		{"https://anything.org/", false, false},
		{"ftp://hooks.example.org/", false, false},
		{"http:///path", false, false},
	} {
		u, err := url.Parse(test.url)
		if err != nil {
			continue // which is as good
		}
		if allowed, named := p.Allows(u); allowed != test.allowed || named != test.named {
			t.Errorf("%s: allowed %t, named %t", test.url, allowed, named)
		}
	}
	if allowed, _ := (Push{}).Allows(&url.URL{Scheme: "https", Host: "hooks.example.org"}); allowed {
		t.Error("something is allowed by default")
	}
}
