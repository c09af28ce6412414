package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"
)

// ourVersion is set by make peers.
var ourVersion string

// printTable prints the median and the range of the rates of each peer, and the median of their ratios to
// the rate of the bare loop on the same store in the same round.
func printTable(w io.Writer, n int, chosen []peer, runs [][]run) {
	rows := [][]string{{"peer", "version", "store", "durability", "records/s (range)", "to bare"}}
	bare := make(map[*store][]run)
	for i, p := range chosen {
		if p.name == "bare loop" {
			bare[p.store] = runs[i]
		}
		var rates, ratios []float64
		for round, r := range runs[i] {
			rates = append(rates, r.rate(n))
			ratios = append(ratios, r.rate(n)/bare[p.store][round].rate(n))
		}
		first := runs[i][0]
		rows = append(rows, []string{
			p.name,
			versionOf(p.module),
			first.version,
			first.durability,
			fmt.Sprintf("%s (%s to %s)", grouped(median(rates)), grouped(slices.Min(rates)), grouped(slices.Max(rates))),
			fmt.Sprintf("%.3f", median(ratios)),
		})
	}
	fmt.Fprintf(w, "%s records, %d runs each\n\n", grouped(float64(n)), len(runs[0]))
	printRows(w, rows)
}

func median(list []float64) float64 {
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// printRows prints a table as Markdown, with columns of equal width. The first row is the head.
func printRows(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	for _, row := range slices.Insert(rows, 1, rule) {
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			fmt.Fprintf(w, "| %s%s ", cell, padding)
		}
		fmt.Fprintln(w, "|")
	}
}

// versionOf returns the version of the module in this program.
func versionOf(module string) string {
	if module == "backlog" {
		return cmp.Or(ourVersion, "this tree")
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return shortName(module) + " " + m.Version
		}
	}
	return "unknown"
}

// majorVersion is the end of a module's path.
var majorVersion = regexp.MustCompile(`/v\d+$`)

// shortName is the last part of a module's path that says what it is.
func shortName(module string) string {
	return path.Base(majorVersion.ReplaceAllString(module, ""))
}

// grouped writes a number with a comma between thousands.
func grouped(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}
