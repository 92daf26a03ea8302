package settings

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Kind is what the value of a setting looks like; its text is the flag's type
// in the help.
type Kind string

// All kinds.
const (
	kindText      Kind = "text"
	KindFile      Kind = "file"
	KindDirectory Kind = "directory"
	KindNumber    Kind = "number"
	KindDuration  Kind = "duration"
	KindBool      Kind = "bool"
	KindList      Kind = "list" // words, separated by commas
	// KindRates is a number by key; only the file can have it.
	KindRates Kind = "rates"
)

// Setting is one flag, environment variable and key of the file, which bear one
// name; a key alone of KindRates. All that leafd knows of it stands in its row, in rows_daemon.go or rows_ids.go;
// relations between settings stand in Config.checkRelations.
type Setting struct {
	Name   string
	Group  string // heading in the sample file and in the help; a row without has that of the one before
	Kind   Kind
	Def    string   // default, as it would be typed
	Usage  string   // one sentence, for --help and the sample
	More   string   // what the sample says besides
	Words  []string // the values allowed, for text and lists; nil allows any
	Secret bool     // never print it as it is
	Live   bool     // a reload takes it
	bounds bounds   // of numbers and durations
	// to is the field that the value goes to; nil where a method of Config reads it.
	to func(c *Config) any
}

// bounds are the least and the greatest value of a number, or of a duration in
// nanoseconds.
type bounds struct{ min, max int64 }

func numbers(least, most int64) bounds { return bounds{least, most} }

func durations(least, most time.Duration) bounds { return bounds{int64(least), int64(most)} }

// ConfigFlag names the file; it is a flag and a variable, but no key of the file.
const ConfigFlag = "config"

// ServiceFile is the packages' file of settings, which every command reads where none is named.
const ServiceFile = "/etc/leafd/leafd.yaml"

// maxNumber stands for a bound that another setting gives.
const maxNumber = math.MaxInt64

// All returns every setting of leafd, in the order of the sample file.
func All() []Setting {
	all := slices.Concat(addressSettings(), listenSettings(), ZooKeeperSettings(), snowflakeSettings(), segmentSettings(),
		clockSettings(), httpSettings(), overloadSettings(), alarmSettings(), logSettings())
	for i := range all {
		if all[i].Group == "" {
			all[i].Group = all[i-1].Group
		}
	}
	return all
}

// EnvName is the environment variable of a setting.
func EnvName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// envPrefix begins the name of every environment variable that leafd reads.
const envPrefix = "LEAFD_"

// AddFlags adds the flags named, or all of them if none is named, and --config.
func AddFlags(fs *pflag.FlagSet, names ...string) {
	for _, s := range All() {
		if s.Kind != KindRates && (len(names) == 0 || slices.Contains(names, s.Name)) {
			flag := fs.VarPF(&textValue{text: s.Def, of: s}, s.Name, "", s.Usage)
			if s.Kind == KindBool {
				flag.NoOptDefVal = "true"
			}
		}
	}
	fs.VarPF(&textValue{of: Setting{Kind: KindFile}}, ConfigFlag, "", "YAML file of settings; leafd config --sample prints one (default: that of LEAFD_CONFIG, else "+ServiceFile+" where it is there)")
}

// Of returns the setting that a flag of AddFlags is for; false for --config and other flags.
func Of(flag *pflag.Flag) (Setting, bool) {
	v, ok := flag.Value.(*textValue)
	if !ok || v.of.Name == "" {
		return Setting{}, false
	}
	return v.of, true
}

// textValue is a flag that keeps what was typed: every source of a setting is
// read by the same code, and all mistakes are reported together.
type textValue struct {
	text string
	of   Setting
}

func (v *textValue) String() string { return v.text }
func (v *textValue) Set(s string) error {
	v.text = s
	return nil
}

// Type is what the help shows after the flag's name.
func (v *textValue) Type() string { return string(v.of.Kind) }
