package shared

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/shared/pluginconfig"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

type settings struct {
	Zone string `json:"zone"`
}

func declare(t *testing.T, target any) *pluginconfig.Config {
	t.Helper()
	config, err := pluginconfig.New(target)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestAPluginIsConfiguredOnce(t *testing.T) {
	var s settings
	server := &pluginServer{setup: newSetup(declare(t, &s))}
	port := httptest.NewServer(server.setup.guard(http.NotFoundHandler()))
	defer port.Close()
	statusOf := func() int {
		t.Helper()
		response, err := http.Get(port.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	configure := func(config string) (*plughostv1.ConfigureResponse, error) {
		return server.Configure(t.Context(), &plughostv1.ConfigureRequest{Config: []byte(config)})
	}

	got, err := configure(`{"zone":1}`)
	if err != nil || len(got.GetFaults()) != 1 || strings.Join(got.GetFaults()[0].GetPath(), "/") != "zone" {
		t.Errorf("a faulty configuration: %v, %v", got, err)
	}
	if statusOf() != http.StatusServiceUnavailable {
		t.Error("it serves without a configuration")
	}
	if got, err := configure(`{"zone":"UTC"}`); err != nil || len(got.GetFaults()) > 0 {
		t.Errorf("a good configuration: %v, %v", got, err)
	}
	if s.Zone != "UTC" || statusOf() != http.StatusNotFound {
		t.Error("it was not configured")
	}
	if _, err := configure(`{"zone":"Asia/Tokyo"}`); status.Code(err) != codes.FailedPrecondition || s.Zone != "UTC" {
		t.Errorf("a second configuration: %v", err)
	}
}

func TestAPluginWithoutADeclarationTakesNone(t *testing.T) {
	server := &pluginServer{setup: newSetup(nil)}
	if _, err := server.Configure(t.Context(), &plughostv1.ConfigureRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("error %v", err)
	}
}

func TestConfigureByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"zone":"UTC"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings{Zone: "default"}
	config := declare(t, &s)
	if err := ConfigureByHand(config); err != nil || s.Zone != "default" {
		t.Errorf("without a file: %+v, %v", s, err)
	}
	t.Setenv(EnvConfigFile, path)
	if err := ConfigureByHand(config); err != nil || s.Zone != "UTC" {
		t.Errorf("with a file: %+v, %v", s, err)
	}
	t.Setenv(EnvConfigFile, path+".missing")
	if err := ConfigureByHand(config); err == nil || !strings.Contains(err.Error(), EnvConfigFile) {
		t.Errorf("with a missing file: %v", err)
	}
	if err := ConfigureByHand(nil); err != nil {
		t.Errorf("nothing to configure: %v", err)
	}
}
