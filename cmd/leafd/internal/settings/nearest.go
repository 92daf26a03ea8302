package settings

import (
	"fmt"
	"strings"
)

// replaced are the settings of earlier releases that are gone, and what has taken their
// place.
var replaced = map[string]string{"reclaim-after": "lease"} //nolint:gochecknoglobals // never written to

// replacedHint says what has taken the place of typed, a setting's name in any of its
// spellings; "" where nothing has.
func replacedHint(typed string) string {
	name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(typed, envPrefix)), "_", "-")
	if now := replaced[name]; now != "" {
		return fmt.Sprintf(" (%s has taken its place; docs/UPGRADING.md)", now)
	}
	return ""
}

// Hint returns ` (did you mean PREFIXname?)` for the known name nearest to
// typed, or "" when none is near: at most a third of it may differ.
func Hint(typed string, known []string, prefix string) string {
	// Longer than any name: not a slip of the finger, and the distance takes
	// time in the product of the lengths.
	if len(typed) > 64 {
		return ""
	}
	if hint := replacedHint(typed); hint != "" {
		return hint
	}
	best, bestDistance := "", max(1, len(typed)/3)+1
	for _, name := range known {
		if d := editDistance(typed, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, best)
}

// editDistance is the number of bytes to insert, delete or replace to turn a
// into b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
