package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/plughost/plughost/host/internal/logs"
)

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// SGR parameters, by which terminals know colours.
const (
	sgrRed    = 31
	sgrGreen  = 32
	sgrYellow = 33
)

// paint has a terminal show a text in a colour.
func paint(sgr int, text string) string { return fmt.Sprintf("\x1b[%dm%s\x1b[0m", sgr, text) }

// inParentheses is what a text adds to another, or nothing.
func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// oneLine is a text that may have several, of somebody else's making, as a line
// that steers no terminal.
func oneLine(text string) string { return logs.Printable(strings.Join(strings.Fields(text), " ")) }

// colored reports whether what is written to w may have colours.
func colored(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
