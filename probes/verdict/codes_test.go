package verdict

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

func TestReference(t *testing.T) {
	const path = "REASONS.md"
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Reference(), string(got)); diff != "" {
		t.Errorf("%s is out of date, run go test -update (-want +got):\n%s", path, diff)
	}
}

// TestCodesAreDocumented compares the string constants of codes.go with the tables.
func TestCodesAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, d := range file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					code, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					declared = append(declared, code)
				}
			}
		}
	}
	var documented []string
	for _, table := range [][]Row{ValidityCodes, VerdictCodes, SweepCodes, TrapCodes} {
		for _, r := range table {
			documented = append(documented, r.Code)
		}
	}
	sortedSet := func(s []string) []string {
		slices.Sort(s)
		return slices.Compact(s)
	}
	n := len(declared)
	if diff := cmp.Diff(sortedSet(declared), sortedSet(documented)); diff != "" {
		t.Errorf("constants and tables differ (-constants +tables):\n%s", diff)
	}
	if len(sortedSet(declared)) != n {
		t.Errorf("%d constants hold %d codes, want one each", n, len(sortedSet(declared)))
	}
}
