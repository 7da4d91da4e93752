package probes

import "testing"

// One that overwrote its environment is known by its birth record alone.
func TestStopOverwritten(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	marked := start(t, "serve", "", withGroup(), withMarker(id))
	overwritten := start(t, "overwrite", "", withMarker(id))
	got, err := Stop(t.Context(), Record{PID: overwritten.pid(), Identity: id}, 0)
	if err != nil || got.Outcome != OutcomeUnknown || got.Proof.Reason == "" || len(got.Swept) > 0 {
		t.Errorf("by marker: %+v, %v", got, err)
	}
	if open(t, overwritten.pid()).Exited() {
		t.Error("it was ended")
	}
	got, err = Stop(t.Context(), record(t, overwritten, id, false), long)
	expect(t, got, err, OutcomeStopped, Exited, marked.pid())
}
