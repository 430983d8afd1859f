package verdict

import (
	"testing"

	"github.com/inferbeat/inferbeat/probes/internal/codetest"
)

func TestCodes(t *testing.T) {
	var documented []string
	for _, table := range [][]Row{ValidityCodes, VerdictCodes, SweepCodes, TrapCodes} {
		for _, r := range table {
			documented = append(documented, r.Code)
		}
	}
	codetest.Documented(t, documented)
	codetest.Reference(t, Reference())
}
