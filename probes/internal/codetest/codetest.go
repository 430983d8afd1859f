// Package codetest tests a package's closed list of reasons: the constants of its
// codes.go, the tables that document them, and the REASONS.md that is printed from
// these.
package codetest

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write REASONS.md")

// Reference compares REASONS.md with the text that it should hold.
func Reference(t *testing.T, want string) {
	t.Helper()
	const path = "REASONS.md"
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is out of date, run go test -update (-want +got):\n%s", path, diff)
	}
}

// Documented compares the string constants of codes.go with the codes of the tables, in
// which one may stand several times.
func Documented(t *testing.T, documented []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared := constants(t, file)
	codes := sortedSet(declared)
	if diff := cmp.Diff(codes, sortedSet(documented)); diff != "" {
		t.Errorf("constants and tables differ (-constants +tables):\n%s", diff)
	}
	if len(codes) != len(declared) {
		t.Errorf("%d constants hold %d codes, want one each", len(declared), len(codes))
	}
}

// constants are the values of a file's string constants.
func constants(t *testing.T, file *ast.File) (values []string) {
	t.Helper()
	for _, d := range file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, text)
				}
			}
		}
	}
	return values
}

func sortedSet(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
