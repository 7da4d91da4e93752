package supervise

import (
	"testing"
	"time"
)

func TestHealthChecksFallOnTheSameMoments(t *testing.T) {
	minute := time.Date(2026, 7, 1, 12, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		name     string
		after    time.Duration // the minute
		interval time.Duration
		want     time.Duration // after the minute
	}{
		{"on a moment", 0, 10 * time.Second, 10 * time.Second},
		{"a little later", 300 * time.Microsecond, 10 * time.Second, 10 * time.Second},
		{"a little earlier", 999 * time.Millisecond, 10 * time.Second, 10 * time.Second},
		{"short interval", 70 * time.Millisecond, 250 * time.Millisecond, 300 * time.Millisecond},
		{"less than ten nanoseconds", 3, 9, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := minute.Add(tt.after)
			if got := tt.after + untilCheck(now, tt.interval); got != tt.want {
				t.Errorf("the check is %v after the minute, want %v", got, tt.want)
			}
		})
	}
}
