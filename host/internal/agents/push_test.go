package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
)

func newTestPushes(ctx context.Context, allow ...string) *pushes {
	p := newPushes(ctx, func(job func()) { go job() }, func(a2a.TaskID) bool { return true }, hclog.NewNullLogger())
	p.delay = time.Millisecond
	p.configure(config.Push{Allow: allow})
	return p
}

// answers is a receiver that answers with one status after the other; the last
// is repeated.
func answers(t *testing.T, codes ...int) (url string, count *atomic.Int32) {
	t.Helper()
	count = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := int(count.Add(1))
		code := codes[min(n, len(codes))-1]
		if code/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(server.Close)
	return server.URL, count
}

func TestNotificationIsTriedAgainIfThatMayHelp(t *testing.T) {
	for _, test := range []struct {
		name  string
		codes []int
		tries int32
		ok    bool
	}{
		{"taken", []int{204}, 1, true},
		{"a fault, once", []int{500, 200}, 2, true},
		{"too many, once", []int{429, 200}, 2, true},
		{"faults", []int{503}, pushAttempts, false},
		{"refused", []int{403}, 1, false},
		{"a redirect", []int{307, 200}, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, count := answers(t, test.codes...)
			err := newTestPushes(t.Context(), url).deliver(&a2a.PushConfig{URL: url + "/hook"}, []byte("{}"))
			if (err == nil) != test.ok || count.Load() != test.tries {
				t.Errorf("error %v after %d tries", err, count.Load())
			}
		})
	}
}

func TestPatternIsNoWayToThisMachine(t *testing.T) {
	url, count := answers(t, 200)
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	p := newTestPushes(t.Context(), "http://*")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"} {
		err := p.deliver(&a2a.PushConfig{URL: "http://" + host + ":" + port}, []byte("{}"))
		if err == nil {
			t.Errorf("a notification was sent to %s", host)
		}
		if host == "127.0.0.1" && !errors.Is(err, errNotPublic) {
			t.Errorf("error %v", err)
		}
	}
	if count.Load() != 0 {
		t.Error("it was received")
	}
}

func TestWhatIsNotAllowedAnyMoreIsNotSent(t *testing.T) {
	url, count := answers(t, 200)
	p := newTestPushes(t.Context(), url)
	c, err := p.add("1", &a2a.PushConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	p.configure(config.Push{})
	if err := p.deliver(c, []byte("{}")); err == nil || count.Load() != 0 {
		t.Errorf("error %v, received %d", err, count.Load())
	}
}

func TestErrorHasNoSecretOfTheURL(t *testing.T) {
	url, _ := answers(t, 403)
	for _, base := range []string{url, "http://127.0.0.1:1"} {
		err := newTestPushes(t.Context(), url, "http://127.0.0.1:1").deliver(&a2a.PushConfig{URL: base + "/hook?key=secret"}, []byte("{}"))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.216.34": true, "2606:4700::1": true,
		"127.0.0.1": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false, "240.0.0.1": false,
		"::1": false, "::": false, "fe80::1%eth0": false, "fd00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "::127.0.0.1": false, "fec0::1": false,
	} {
		if err := publicOnly(netip.MustParseAddr(address)); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestPushConfigsAreBounded(t *testing.T) {
	p := newTestPushes(t.Context(), "https://*")
	for n := range maxPushConfigs {
		if _, err := p.add("1", &a2a.PushConfig{ID: fmt.Sprint(n), URL: "https://example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.add("1", &a2a.PushConfig{URL: "https://example.org"}); err == nil {
		t.Error("one more was taken")
	}
	if _, err := p.add("1", &a2a.PushConfig{ID: "0", URL: "https://example.org/other"}); err != nil {
		t.Errorf("one in the place of another: %v", err)
	}
	if got := p.list("1"); len(got) != maxPushConfigs || got[0].URL != "https://example.org/other" {
		t.Errorf("%d, the first %+v", len(got), got[0])
	}
	p.notify(update("1", a2a.TaskStateCompleted))
	if p.wanted("1") {
		t.Error("they stay when the task is over")
	}
}

func TestSlowReceiverHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	url, count := answers(t, 200)
	p := newTestPushes(t.Context(), slow.URL, url)
	for _, to := range []string{slow.URL, url} {
		if _, err := p.add("1", &a2a.PushConfig{URL: to}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * maxNotifications {
		p.notify(update("1", a2a.TaskStateWorking))
	}
	p.mu.Lock()
	for _, to := range p.of["1"] {
		if len(to.waiting) > maxNotifications {
			t.Errorf("%d notifications wait", len(to.waiting))
		}
	}
	p.mu.Unlock()
	for deadline := time.After(20 * time.Second); count.Load() == 0; {
		select {
		case <-deadline:
			t.Fatal("the other receiver was not notified")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestWhatWaitsForAConfigThatIsDeletedIsNotSent(t *testing.T) {
	begun, release := make(chan struct{}, 10), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	}))
	defer slow.Close()
	var sending sync.WaitGroup
	p := newTestPushes(t.Context(), slow.URL)
	p.start = sending.Go
	taken, err := p.add("1", &a2a.PushConfig{URL: slow.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.notify(update("1", a2a.TaskStateWorking))
	}
	<-begun
	p.remove("1", taken.ID)
	close(release)
	sending.Wait()
	if more := len(begun); more > 0 {
		t.Errorf("%d more were sent", more)
	}
}

func TestNotificationsThatWaitAreBoundedInSize(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	received := make(chan bool, 100) // whether it is a large one
	var first sync.Once
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		first.Do(func() {
			close(begun)
			<-release
		})
		body, _ := io.ReadAll(r.Body)
		received <- len(body) > maxNotificationBytes/4
	}))
	defer slow.Close()
	var sending sync.WaitGroup
	p := newTestPushes(t.Context(), slow.URL)
	p.start = sending.Go
	if _, err := p.add("1", &a2a.PushConfig{URL: slow.URL}); err != nil {
		t.Fatal(err)
	}
	p.notify(update("1", a2a.TaskStateWorking))
	<-begun
	artifact := &a2a.TaskArtifactUpdateEvent{TaskID: "1", Artifact: &a2a.Artifact{
		ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", maxNotificationBytes/4))},
	}}
	for range 6 {
		p.notify(artifact)
	}
	p.notify(update("1", a2a.TaskStateCompleted))
	close(release)
	sending.Wait()
	close(received)
	var large []bool
	for is := range received {
		large = append(large, is)
	}
	if !slices.Equal(large, []bool{false, true, true, true, false}) {
		t.Errorf("received, by whether it is large: %v", large)
	}
}
