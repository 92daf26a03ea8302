// Package settings turns flags, environment variables and the file of --config into
// one checked Config, and reports every mistake at once.
package settings
