package launch

// SealDescriptors does nothing: on Windows a child inherits only the handles
// that are listed for it.
func SealDescriptors() error { return nil }
