// Package config reads the configuration of a host: HCL in, typed values and
// diagnostics out.
//
// [Load] takes files and directories, and gives either a complete [Config] or
// a list of faults, never half of a configuration. Faults are collected, not
// reported one at a time: each says what is wrong, where (file, line, column
// and byte), and what to do about it. [WriteDiagnostics] prints them with the
// source line and a caret under the fault.
//
// The work is done in five steps, one file each: reading and refusing hostile
// input (load.go, guard.go), gathering what expressions can refer to (scope.go,
// variable.go, locals.go, service_nodes.go), decoding bodies level by level
// against the schema that also documents them (schema.go, decode.go, host.go,
// service.go), turning expressions into Go values that remember where they were
// written (value.go), within a budget (budget.go, metered.go), and the checks
// that need all services at once (check.go, refs.go). What may not be shown is
// kept from all findings in one place (sensitive.go).
package config
