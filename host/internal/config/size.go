package config

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// size reads a number of bytes that is not below least, such as "10MiB".
func (d *decoder) size(attrs hcl.Attributes, name string, fallback, least int64) val[int64] {
	out := val[int64]{V: fallback}
	v, rng, ok := d.attribute(attrs, name)
	out.Range = rng
	if !ok {
		return out
	}
	if v.Type() == cty.Number {
		d.diags.errorf(rng, "A unit is needed", `%s: a number alone says no size. Write it with a unit, for instance "%sMiB".`,
			name, numberText(v))
		return out
	}
	s, ok := d.text(v, rng, name)
	if !ok {
		return out
	}
	bytes, advice := parseSize(s)
	switch {
	case advice != "":
		d.diags.errorf(rng, "Not a size", "%s: %s", name, advice)
	case bytes < least:
		d.diags.errorf(rng, "Size too small", "%s: at least %s is wanted.", name, sizeText(least))
	default:
		out.V, out.Set = bytes, true
	}
	return out
}

// sizeUnits are the units of a size and how many bytes each is.
func sizeUnits() map[string]int64 {
	return map[string]int64{
		"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
}

// maxSizeDigits is enough for every size that can be counted, to the byte.
const maxSizeDigits = 24

// parseSize reads a number with a unit. What is wrong with it is said in the
// advice.
func parseSize(s string) (bytes int64, advice string) {
	s = strings.TrimSpace(s)
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.TrimSpace(s[len(number):])
	n, ok := new(big.Rat), false
	// Before it is converted: an exponent could ask for a number of any length.
	if len(number) <= maxSizeDigits && strings.Trim(number, "0123456789.") == "" {
		n, ok = n.SetString(number)
	}
	if !ok {
		return 0, fmt.Sprintf(`%s is no size. Write a number with the unit KiB, MiB or GiB, for instance "10MiB".`, quote(s))
	}
	factor, known := sizeUnits()[unit]
	if !known {
		for _, full := range []string{"KiB", "MiB", "GiB", "TiB"} {
			if unit != "" && strings.EqualFold(unit[:1], full[:1]) && suggest(unit, []string{full, full[:1], full[:1] + "B"}) != "" {
				return 0, fmt.Sprintf(`%s is no unit. Write "%s%s".`, quote(unit), number, full)
			}
		}
		if unit == "" {
			return 0, fmt.Sprintf(`a number alone says no size. Write it with a unit, for instance "%sMiB".`, number)
		}
		return 0, fmt.Sprintf(`%s is no unit. The units are B, KiB, MiB, GiB and TiB.`, quote(unit))
	}
	n.Mul(n, new(big.Rat).SetInt64(factor))
	if !n.IsInt() || !n.Num().IsInt64() {
		if n.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0 {
			return 0, fmt.Sprintf("%s is more than can be counted.", quote(s))
		}
		return 0, fmt.Sprintf("%s is no whole number of bytes.", quote(s))
	}
	return n.Num().Int64(), ""
}

// sizeText writes a size with the largest unit of which it is a whole number.
func sizeText(bytes int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if factor := sizeUnits()[unit]; bytes >= factor && bytes%factor == 0 {
			return fmt.Sprintf("%d%s", bytes/factor, unit)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}
