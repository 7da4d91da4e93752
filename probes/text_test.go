package probes

import (
	"encoding"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

// What operators and other programs read does not change by accident.
func TestTexts(t *testing.T) {
	t.Parallel()
	type text interface {
		fmt.Stringer
		encoding.TextMarshaler
	}
	for want, values := range map[string][]text{
		"unknown":        {StateUnknown, Unknown, OutcomeUnknown, State(99), Verdict(99), Outcome(99)},
		"alive":          {Alive},
		"zombie":         {Zombie},
		"gone":           {Gone},
		"ours":           {Ours},
		"not ours":       {NotOurs, OutcomeNotOurs},
		"not running":    {OutcomeNotRunning},
		"stopped":        {OutcomeStopped},
		"failed":         {OutcomeFailed},
		"none":           {HowNone, How(99)},
		"already exited": {AlreadyExited},
		"exited":         {Exited},
		"killed":         {Killed},
	} {
		for _, v := range values {
			b, err := v.MarshalText()
			if v.String() != want || string(b) != want || err != nil {
				t.Errorf("%T: %q, %q, %v, want %q", v, v.String(), b, err, want)
			}
		}
	}
}

func TestRecordAsJSON(t *testing.T) {
	t.Parallel()
	r := Record{
		PID:   7,
		Birth: Birth{BootID: "b", PID: 7, Start: 1<<64 - 1, PidfdInode: 9},
		Identity: marker.Identity{
			Kind: marker.KindMCP, Service: "s", Installation: "i", Instance: "j",
		},
		Group: true,
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"pid":7,"birth":{"boot_id":"b","pid":7,"start":18446744073709551615,"pidfd_inode":9},` +
		`"identity":{"kind":"mcp","service":"s","installation":"i","instance":"j"},"group":true}`
	if string(b) != want {
		t.Errorf("record is\n%s, want\n%s", b, want)
	}
	var back Record
	if err := json.Unmarshal(b, &back); err != nil || back != r {
		t.Errorf("it comes back as %+v, %v", back, err)
	}
}
