package settings

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sampleHeading begins the sample file.
const sampleHeading = `# Settings of leafd, all of them, each with its default.
#
# leafd reads it by --config FILE or LEAFD_CONFIG=FILE, and without these as
# ` + ServiceFile + `. A flag of the same name wins over it, and so does an
# environment variable: LEAFD_ and the name in capitals, with _ for -, so that data-dir is
# LEAFD_DATA_DIR. An empty variable counts as none. A name that leafd doesn't know is an
# error. Times are durations such as 500ms, 3s, 2m or 24h. "leafd config" checks the file and
# prints what it comes to. SIGHUP makes a running daemon read it again: what says so is taken
# then, and the rest at the next start.
`

// Sample is the committed sample, made from the settings themselves.
func Sample() (string, error) {
	var b strings.Builder
	b.WriteString(sampleHeading)
	group := ""
	for _, s := range All() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n### %s\n", group)
		}
		fmt.Fprintf(&b, "\n# %s\n", strings.ReplaceAll(s.Text(), "\n", "\n# "))
		line, err := yamlLine(s.Name, s.yamlDefault())
		if err != nil {
			return "", err
		}
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}

// Text is all that the sample and the manual say of the setting, in sentences.
func (s Setting) Text() string {
	text := Sentence(strings.TrimSuffix(s.Usage, fmt.Sprintf(" (default %s)", s.Def))) // pflag adds no default that is 0
	if s.More != "" {
		text += "\n" + s.More
	}
	if s.Live {
		text += "\nTaken at a reload (SIGHUP)."
	}
	return text
}

// Sentence returns usage with a capital and a full stop.
func Sentence(usage string) string {
	first, size := utf8.DecodeRuneInString(usage)
	return string(unicode.ToUpper(first)) + usage[size:] + "."
}

// yamlDefault is the default as the type that the file has to have.
func (s Setting) yamlDefault() any {
	switch s.Kind { //nolint:exhaustive // the others are text in the file
	case KindNumber:
		if n, err := strconv.ParseInt(s.Def, 10, 64); err == nil {
			return n
		}
	case KindBool:
		return s.Def == "true"
	case KindRates:
		return map[string]int{}
	}
	return s.Def
}
