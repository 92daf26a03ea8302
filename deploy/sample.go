// Package deploy has the sample of the settings, which the program prints and explains its flags by.
package deploy

import _ "embed"

// Sample is leafd.yaml: every setting at its default, under a comment whose first line is what the help says of it.
//
//go:embed leafd.yaml
var Sample string
