package config

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0B": 0, "1B": 1, "1KiB": 1024, "10MiB": 10 << 20, "1.5GiB": 3 << 29, "2 TiB": 2 << 40,
		"1kB": 1000, "20MB": 20e6, "3GB": 3e9, "0.5kB": 500, "9223372036854775807B": 1<<63 - 1,
	} {
		if got, advice := parseSize(text); got != want || advice != "" {
			t.Errorf("%q is %d (%s), want %d", text, got, advice, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "no size",
		"10":                             `"10MiB"`,
		"ten":                            "no size",
		"-1MiB":                          "no size",
		"1e3MiB":                         "no size",
		"1/2MiB":                         "no size",
		"MiB":                            "no size",
		"10M":                            `Write "10MiB"`,
		"10m":                            `Write "10MiB"`,
		"10mb":                           `Write "10MiB"`,
		"64K":                            `Write "64KiB"`,
		"64kb":                           `Write "64KiB"`,
		"2g":                             `Write "2GiB"`,
		"10 bytes":                       "The units are",
		"10min":                          "no unit",
		"1.0001KiB":                      "no whole number",
		"1e999999999B":                   "no size",
		"0x10MiB":                        "no size",
		"1_000B":                         "no size",
		strings.Repeat("9", 400) + "MiB": "no size",
		"9999999999TiB":                  "more than can be counted",
	} {
		if got, advice := parseSize(text); !strings.Contains(advice, want) {
			t.Errorf("%q is %d (%q), want %q", text, got, advice, want)
		}
	}
	for bytes, want := range map[int64]string{0: "0B", 1000: "1000B", 1 << 10: "1KiB", 1536: "1536B", 64 << 10: "64KiB", 10 << 20: "10MiB", 3 << 40: "3TiB"} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%d is written %q, want %q", bytes, got, want)
		}
	}
}
