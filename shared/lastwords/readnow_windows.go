package lastwords

import "os"

// readNow reads nothing: pipes have no deadline here.
func readNow(*os.File, []byte) (int, error) { return 0, os.ErrDeadlineExceeded }
