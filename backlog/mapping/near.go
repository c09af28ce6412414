package mapping

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// DidYouMean asks for the name that was probably meant, in front of the hint.
func DidYouMean(got string, names []string, hint string) string {
	if best := Near(got, names); best != "" {
		return "did you mean " + Show(best) + "? " + hint
	}
	return hint
}

// DidYouMeanFile is DidYouMean for a file: it looks at those of its kind beside it.
func DidYouMeanFile(path, hint string) string {
	ext := filepath.Ext(path)
	like, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+ext))
	for i := range like {
		like[i] = strings.TrimSuffix(filepath.Base(like[i]), ext)
	}
	if best := Near(strings.TrimSuffix(filepath.Base(path), ext), like); best != "" {
		return "did you mean " + Show(best+ext) + "? " + hint
	}
	return hint
}

// Near returns the word that was probably meant, "" if none is near.
func Near(got string, words []string) (best string) {
	got = fold(got)
	least := len(got)/3 + 1
	for _, w := range words {
		n := levenshtein.ComputeDistance(got, fold(w))
		if letters(got) == letters(fold(w)) { // swapped
			n = min(n, 1)
		}
		if n < least {
			best, least = w, n
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// fold makes maxAge, max-age and MAX_AGE alike. What is too long to be a slip
// of any key is cut, which bounds the work of comparing.
func fold(s string) string {
	s = s[:min(len(s), 40)]
	return strings.ToLower(separators.Replace(s))
}

func letters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}
