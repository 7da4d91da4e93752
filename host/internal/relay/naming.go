package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// separator stands between a service's name and a tool's in a joined view. No
// service has it in its name, so joined names are never the same.
const separator = "__"

const (
	// maxJoinedName is how many bytes a name may have: widely used clients and
	// model providers refuse longer ones.
	maxJoinedName = 64
	// hashDigits are those of the hash that the end of a longer name is replaced by.
	hashDigits = 8
)

// joinedName names a tool or prompt in a view of several services. It depends on
// nothing but the two names. One that would be too long ends with a part of its
// hash in place of what is too much, and still begins with the whole name of its
// service.
func joinedName(service, name string) string {
	joined := service + separator + name
	if len(joined) <= maxJoinedName {
		return joined
	}
	sum := sha256.Sum256([]byte(joined))
	end := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	// A character that is cut in two is left out whole.
	return strings.ToValidUTF8(joined[:maxJoinedName-len(end)], "") + end
}
