package launch

// Redacted returns an error of which nothing but the text is different: it is
// without what redact takes from it. A plugin says in its errors what it likes.
func Redacted(err error, redact func(text string) string) error {
	if err == nil || redact == nil {
		return err
	}
	text := err.Error()
	shown := redact(text)
	if shown == text {
		return err
	}
	return &redactedError{shown, err}
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }
