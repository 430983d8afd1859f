package daemon

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/inferbeat/inferbeat"

// mayImport is the import law: data flows right, imports point down to the
// vocabulary. A package that is not listed may not exist.
var mayImport = map[string][]string{
	"":                         {"daemon/cli"},
	"daemon/cli":               {"exporters/store", "exporters/table", "daemon", "alerts", "dashboards", "daemon/config", "daemon/selftest", "probes", "probes/backend", "probes/loadgen", "probes/workload", "probes/arrival", "probes/capacity", "probes/compare", "probes/fakellm", "exporters/catalog", "exporters/jsonl", "exporters/plot", "exporters/report", "exporters/store"},
	"daemon/cli/gen":           {"daemon/cli"},
	"daemon":                   {"exporters/store", "probes/budget", "alerts", "daemon/config", "daemon/discovery", "daemon/embedded", "daemon/guard", "daemon/schedule", "daemon/selftest", "daemon/web", "probes", "probes/arrival", "probes/backend", "probes/capacity", "probes/compare", "probes/fetch", "probes/imports", "probes/inspect", "probes/loadgen", "probes/regression", "probes/summary", "probes/tokenizer", "probes/verdict", "probes/wire", "probes/workload", "exporters", "exporters/catalog", "exporters/jsonl", "exporters/prom"},
	"daemon/config":            {"probes"},
	"daemon/config/gen":        {"daemon/config"},
	"daemon/discovery":         {},
	"daemon/embedded":          {},
	"daemon/guard":             {"probes"},
	"daemon/schedule":          {"probes"},
	"daemon/selftest":          {"probes", "probes/truth", "probes/backend", "probes/loadgen", "probes/stats", "probes/wire"},
	"daemon/selftest/soak":     {"daemon", "probes", "probes/truth"},
	"daemon/web":               {"probes"},
	"probes":                   {},
	"probes/stats":             {},
	"probes/stream":            {},
	"probes/internal/codetest": {},
	"probes/internal/jsonscan": {},
	"probes/arrival":           {"probes"},
	"probes/workload":          {"probes"},
	"probes/loadgen":           {"probes"},
	"probes/fakellm":           {"probes"},
	"probes/fetch":             {"probes"},
	"probes/tokenizer":         {"probes"},
	"probes/imports":           {"probes", "probes/stats"},
	"probes/inspect":           {"probes"},
	"probes/truth":             {"probes"},
	"probes/wire":              {"probes"},
	"probes/backend":           {"probes", "probes/stream", "probes/wire", "probes/internal/jsonscan"},
	"probes/summary":           {"probes", "probes/stats"},
	"probes/verdict":           {"probes", "probes/stats"},
	"probes/capacity":          {"probes", "probes/stats"},
	"probes/regression":        {"probes", "probes/stats"},
	"probes/compare":           {"probes", "probes/stats"},
	"alerts":                   {"exporters/catalog"},
	"alerts/gen":               {"alerts"},
	"alerts/scenario":          {},
	"alerts/mutate":            {"alerts/scenario"},
	"exporters":                {"probes"},
	"exporters/catalog":        {},
	"exporters/catalog/gen":    {"exporters/catalog"},
	"exporters/jsonl":          {"probes"},
	"exporters/prom":           {"probes", "exporters/catalog"},
	"exporters/report":         {"probes", "exporters/catalog"},
	"exporters/plot":           {"probes"},
	"exporters/store":          {"probes"},
	"exporters/table":          {"probes"},
	"dashboards":               {},
	"dashboards/boards":        {"exporters/catalog"},
	"dashboards/gen":           {"dashboards/boards"},
	"probes/budget":            {"probes"},
}

// onlyIn lists imports from outside that have one home each.
var onlyIn = map[string][]string{
	"github.com/prometheus/client_golang":  {"exporters/prom", "daemon", "daemon/discovery", "daemon/embedded"},
	"github.com/knadh/koanf":               {"daemon/config"},
	"go.yaml.in/yaml":                      {"alerts", "alerts/scenario", "daemon/config", "daemon/discovery", "dashboards"},
	"github.com/prometheus/prometheus":     {"alerts/scenario", "alerts/mutate", "daemon/discovery", "daemon/embedded"},
	"github.com/robfig/cron":               {"daemon/schedule"},
	"github.com/spf13/pflag":               {"daemon/cli", "daemon/config"},
	"github.com/parquet-go":                {"probes/workload", "exporters/table"},
	"gonum.org":                            {"exporters/plot"},
	"modernc.org/sqlite":                   {"exporters/store"},
	"github.com/dlclark/regexp2":           {"probes/tokenizer"},
	"github.com/grafana":                   {"dashboards/boards"},
	"github.com/ardanlabs/jinja":           {"probes/tokenizer"},
	"github.com/pkoukk/tiktoken-go-loader": {"probes/tokenizer"},
	"k8s.io/":                              {"daemon/discovery"},
	"log/slog":                             {"alerts/scenario", "daemon", "daemon/cli", "daemon/discovery", "daemon/embedded", "daemon/schedule", "daemon/web", "exporters", "exporters/jsonl", "exporters/prom"},
}

// mayStartGoroutines is every package that starts a goroutine by a go statement, by
// the Go of a group, or by AfterFunc; each owner knows how its goroutines end.
var mayStartGoroutines = []string{
	"", // main: a second signal kills
	"alerts/mutate", "daemon", "daemon/cli", "daemon/discovery", "daemon/embedded", "daemon/schedule", "daemon/selftest", "daemon/selftest/soak", "exporters",
	"probes/fakellm", "probes/fetch", "probes/loadgen", "probes/truth", "probes/wire",
}

type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func projectPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"/...")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	packages := map[string]goPackage{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("decode package list: %v", err)
		}
		if len(p.GoFiles) > 0 {
			packages[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p
		}
	}
}

func TestImportLaw(t *testing.T) {
	for name, p := range projectPackages(t) {
		allowed, listed := mayImport[name]
		if !listed {
			t.Errorf("package %q is not in the import law; add it with what it may import", name)
			continue
		}
		for _, imported := range p.Imports {
			if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
				if !slices.Contains(allowed, ours) {
					t.Errorf("package %q imports %q; the law allows %q", name, ours, allowed)
				}
				continue
			}
			for prefix, homes := range onlyIn {
				if strings.HasPrefix(imported, prefix) && !slices.Contains(homes, name) {
					t.Errorf("package %q imports %s, which only %q may", name, imported, homes)
				}
			}
		}
	}
}

func TestGoroutineOwners(t *testing.T) {
	for name, p := range projectPackages(t) {
		var starts []string
		for _, file := range p.GoFiles {
			path := filepath.Join(p.Dir, file)
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatalf("parse %s: %v", path, err)
			}
			for _, at := range goroutineStarts(tree) {
				starts = append(starts, fset.Position(at).String())
			}
		}
		switch listed := slices.Contains(mayStartGoroutines, name); {
		case listed && len(starts) == 0:
			t.Errorf("package %q starts no goroutine; take it off the list", name)
		case !listed && len(starts) > 0:
			t.Errorf("package %q starts goroutines at %s; only %q may", name, starts, mayStartGoroutines)
		}
	}
}

// goroutineStarts is where a file starts goroutines: sync.WaitGroup and errgroup.Group
// have a method Go, and the functions of AfterFunc run on goroutines of their own.
func goroutineStarts(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = append(at, n.Pos())
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}

func TestGoroutineStarts(t *testing.T) {
	for _, tt := range []struct {
		body string
		want int
	}{
		{"go f()", 1},
		{"var g sync.WaitGroup; g.Go(f); s.group.Go(func() { go f() })", 3},
		{"time.AfterFunc(0, f); context.AfterFunc(ctx, f)", 2},
		{"start := time.AfterFunc; start(0, f)", 1},
		{"f(); g.Wait(); time.NewTimer(0)", 0},
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() { "+tt.body+" }", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(goroutineStarts(tree)); got != tt.want {
			t.Errorf("%s: got %d starts, want %d", tt.body, got, tt.want)
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, p := range projectPackages(t) {
		for _, file := range p.GoFiles {
			path := filepath.Join(p.Dir, file)
			tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatalf("parse %s: %v", path, err)
			}
			for _, decl := range tree.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function; registries are literal maps", path)
				}
			}
		}
	}
}

// A link in a comment to what is not there any more is a comment that no longer tells
// the truth: [Name], [Type.Method] and [package.Name] must exist.
func TestDocLinks(t *testing.T) {
	link := regexp.MustCompile(`\[\*?[A-Z]\w*[a-z]\w*(\.\w+)?\]`) // left as text by the parser; [DONE] is a word of the wire
	for name, p := range projectPackages(t) {
		fset := token.NewFileSet()
		var files []*ast.File
		for _, file := range p.GoFiles {
			tree, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, tree)
		}
		pkg, err := doc.NewFromFiles(fset, files, p.ImportPath, doc.AllDecls|doc.PreserveAST)
		if err != nil {
			t.Fatal(err)
		}
		comments := pkg.Parser()
		known := comments.LookupSym
		comments.LookupSym = func(recv, sym string) bool { return known(recv, sym) || isMember(files, recv, sym) }
		for _, file := range files {
			for _, group := range file.Comments {
				for _, left := range link.FindAllString(textOf(comments.Parse(group.Text())), -1) {
					t.Errorf("%s: %s in package %q names nothing that exists", fset.Position(group.Pos()), left, name)
				}
			}
		}
	}
}

// isMember says whether files declare a type with that field or method, or anything
// else of that name.
func isMember(files []*ast.File, typ, name string) (found bool) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if typ == "" && n.Name.Name == name {
					found = true
				}
				if n.Name.Name == typ {
					ast.Inspect(n.Type, func(m ast.Node) bool {
						if field, ok := m.(*ast.Field); ok {
							found = found || slices.ContainsFunc(field.Names, func(i *ast.Ident) bool { return i.Name == name })
						}
						return true
					})
				}
			case *ast.FuncDecl:
				found = found || n.Name.Name == name && (n.Recv == nil) == (typ == "")
			case *ast.ValueSpec:
				found = found || typ == "" && slices.ContainsFunc(n.Names, func(i *ast.Ident) bool { return i.Name == name })
			}
			return !found
		})
	}
	return found
}

// textOf is what of a comment is plain text, without code and links.
func textOf(d *comment.Doc) string {
	var out strings.Builder
	var blocks func([]comment.Block)
	blocks = func(all []comment.Block) {
		for _, b := range all {
			switch b := b.(type) {
			case *comment.Paragraph:
				for _, text := range b.Text {
					if plain, ok := text.(comment.Plain); ok {
						out.WriteString(string(plain))
					}
				}
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			}
		}
	}
	blocks(d.Content)
	return out.String()
}
