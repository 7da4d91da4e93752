package a2ahttp

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

func TestCardIsReadByClientsOfBothVersions(t *testing.T) {
	card := Readdress(&a2a.AgentCard{
		Name:       "agent",
		Signatures: []a2a.AgentCardSignature{{Protected: "p", Signature: "s"}},
		SecuritySchemes: a2a.NamedSecuritySchemes{
			"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"},
			"key":    a2a.APIKeySecurityScheme{Name: "X-Key", Location: "header"},
		},
		SecurityRequirements: a2a.SecurityRequirementsOptions{{"bearer": a2a.SecuritySchemeScopes{}}},
	}, "http://127.0.0.1/agent")
	encoded, err := EncodeCard(card)
	if err != nil {
		t.Fatal(err)
	}
	var current a2a.AgentCard
	if err := json.Unmarshal(encoded, &current); err != nil {
		t.Fatalf("1.0: %v in %s", err, encoded)
	}
	if !reflect.DeepEqual(current.SecuritySchemes, card.SecuritySchemes) || len(current.SupportedInterfaces) != 4 || len(current.Signatures) != 0 {
		t.Errorf("1.0: %+v", current)
	}
	var legacy struct {
		URL, PreferredTransport string
		SecuritySchemes         map[string]struct{ Type, Scheme string }
	}
	if err := json.Unmarshal(encoded, &legacy); err != nil {
		t.Fatal(err)
	}
	if legacy.URL != "http://127.0.0.1/agent" || legacy.PreferredTransport != "JSONRPC" || legacy.SecuritySchemes["bearer"].Type != "http" {
		t.Errorf("0.3: %+v", legacy)
	}
	if _, err := a2av0.NewAgentCardParser()(encoded); err != nil {
		t.Errorf("0.3 by the SDK: %v", err)
	}
}
