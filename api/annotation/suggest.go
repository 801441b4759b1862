package annotation

import "strings"

// Nearest returns the word that a mistyped one probably stands for, or "" when
// none is near: at most a third of the letters, and never more than three, are
// wrong. Capitals do not count. Among equally near words the first wins.
func Nearest(typed string, words []string) string {
	best, at := "", 1+min(3, max(1, len(typed)/3))
	for _, w := range words {
		if diff := len(typed) - len(w); diff >= at || -diff >= at {
			continue // so far apart in length that no look is needed
		}
		if d := distance(strings.ToLower(typed), strings.ToLower(w)); d < at {
			best, at = w, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
