package shared

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

func TestDescribeNamesThePluginAndItsSDK(t *testing.T) {
	server := &pluginServer{setup: newSetup(nil), plugin: Plugin{Describe: &plughostv1.DescribeResponse{
		Kind: plughostv1.Kind_KIND_AGENT, Name: "n", Version: "v", AgentCard: []byte("{}"),
	}}}
	got, err := server.Describe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.GetKind() != plughostv1.Kind_KIND_AGENT || got.GetName() != "n" || got.GetVersion() != "v" || string(got.GetAgentCard()) != "{}" {
		t.Errorf("got %v", got)
	}
	if !strings.HasPrefix(got.GetSdk(), "plughost-go") {
		t.Errorf("SDK %q", got.GetSdk())
	}
}

func TestHealthIsWhatThePluginSays(t *testing.T) {
	var fault error
	server := &pluginServer{setup: newSetup(nil), plugin: Plugin{
		Work: &Work{}, Health: func(context.Context) error { return fault },
	}}
	for _, test := range []struct {
		err  error
		want plughostv1.HealthResponse_Status
	}{
		{nil, plughostv1.HealthResponse_STATUS_SERVING},
		{errors.New("the database is away"), plughostv1.HealthResponse_STATUS_NOT_SERVING},
	} {
		fault = test.err
		got, err := server.Health(t.Context(), nil)
		if err != nil || got.GetStatus() != test.want || test.err != nil && got.GetReason() != test.err.Error() {
			t.Errorf("with %v: %v, %v", test.err, got, err)
		}
	}
}

func TestHealthAndDrainFollowTheWork(t *testing.T) {
	work := &Work{}
	server := &pluginServer{setup: newSetup(nil), plugin: Plugin{Work: work}}
	health := func() plughostv1.HealthResponse_Status {
		t.Helper()
		got, err := server.Health(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.GetStatus()
	}
	if got := health(); got != plughostv1.HealthResponse_STATUS_SERVING {
		t.Errorf("health %v before the drain", got)
	}
	end, _ := work.Begin()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := server.Drain(late, nil); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("drain with work in flight: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := server.Drain(canceled, nil); status.Code(err) != codes.Canceled {
		t.Errorf("a drain that was given up: %v", err)
	}
	if got := health(); got != plughostv1.HealthResponse_STATUS_DRAINING {
		t.Errorf("health %v after the drain", got)
	}
	end()
	if _, err := server.Drain(t.Context(), nil); err != nil {
		t.Errorf("drain with nothing in flight: %v", err)
	}
}
