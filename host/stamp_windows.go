package main

import "errors"

func replaceImage(string, []string, []string) error { return errors.ErrUnsupported }
