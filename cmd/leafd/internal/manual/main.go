// Command manual writes man1, a page for each command of leafd, and completions, those of bash
// (leafd), zsh (_leafd) and fish (leafd.fish), into a directory, for packages of leafd:
//
//	SOURCE_DATE_EPOCH=1700000000 manual DIR
//
// The pages' date is that of SOURCE_DATE_EPOCH, so that a build of one commit makes one set
// of pages.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "manual: want one argument, the directory that the pages go to")
		return cli.ExitUsage
	}
	if err := write(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

func write(dir string) error {
	pages, completions := filepath.Join(dir, "man1"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(pages, 0o755), os.MkdirAll(completions, 0o755)); err != nil { //nolint:gosec // all users read them
		return err
	}
	root := cli.Root()
	root.DisableAutoGenTag = true // it has today's date
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Source: "leafd", Manual: "leafd"}, pages),
		root.GenBashCompletionFileV2(filepath.Join(completions, "leafd"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_leafd")),
		root.GenFishCompletionFile(filepath.Join(completions, "leafd.fish"), true),
	)
}
