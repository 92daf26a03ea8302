package main

import (
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// kind is what the value of a setting looks like; its text is the flag's type
// in the help.
type kind string

const (
	kindText     kind = "text"
	kindNumber   kind = "number"
	kindDuration kind = "duration"
	kindList     kind = "list" // words, separated by commas
)

// setting is one flag, environment variable and key of the file, which bear one
// name. All that leafd knows of it stands here; relations between settings
// stand in validate.go.
type setting struct {
	name   string
	group  string // heading in the sample file; "" goes on under the one before
	kind   kind
	def    string   // default, as it would be typed
	usage  string   // one sentence, for --help and the sample
	more   string   // what the sample says besides
	words  []string // the values allowed, for text and lists; nil allows any
	secret bool     // never print it as it is
	live   bool     // taken at SIGHUP; its field is in Config.withLive
	// min and max bound numbers, and durations in nanoseconds, both included.
	min, max int64
}

// configFlag names the file; it is a flag and a variable, but no key of the file.
const configFlag = "config"

// maxNumber stands for a bound that another setting gives.
const maxNumber = math.MaxInt64

// settings returns every setting of leafd, in the order of the sample file.
// Their groups stand in settings_groups.go.
func settings() []setting {
	return slices.Concat(addressSettings(), listenSettings(), zookeeperSettings(), snowflakeSettings(), segmentSettings(),
		clockSettings(), httpSettings(), overloadSettings(), alarmSettings(), logSettings())
}

// envName is the environment variable of a setting.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// envPrefix begins the name of every environment variable that leafd reads.
const envPrefix = "LEAFD_"

// addSettings adds the flags named, or all of them if none is named, and --config.
func addSettings(fs *pflag.FlagSet, names ...string) {
	for _, s := range settings() {
		if len(names) == 0 || slices.Contains(names, s.name) {
			fs.VarPF(&textValue{text: s.def, kind: s.kind}, s.name, "", s.usage)
		}
	}
	fs.VarPF(&textValue{kind: "file"}, configFlag, "", "YAML file of settings; leafd config --sample prints one")
}

// textValue is a flag that keeps what was typed: every source of a setting is
// read by the same code, and all mistakes are reported together.
type textValue struct {
	text string
	kind kind
}

func (v *textValue) String() string { return v.text }
func (v *textValue) Set(s string) error {
	v.text = s
	return nil
}

// Type is what the help shows after the flag's name.
func (v *textValue) Type() string { return string(v.kind) }
