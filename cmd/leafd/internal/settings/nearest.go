package settings

import "fmt"

// Hint returns ` (did you mean PREFIXname?)` for the known name nearest to
// typed, or "" when none is near: at most a third of it may differ.
func Hint(typed string, known []string, prefix string) string {
	// Longer than any name: not a slip of the finger, and the distance takes
	// time in the product of the lengths.
	if len(typed) > 64 {
		return ""
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
