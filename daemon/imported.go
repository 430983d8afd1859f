package daemon

import (
	"io"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/imports"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// Import reads another tool's result file and judges each result as far as it
// can be judged. The runs are good even if there is an error, which names what
// could not be read by file and line.
func Import(file string, r io.Reader, target probes.Target, probe string) ([]*probes.Run, error) {
	runs, err := imports.Read(file, r, imports.Options{Target: target, Probe: probe})
	for _, run := range runs {
		run.Fingerprint = verdict.Fingerprint(run.Spec, run.Target, run.Facts, "imported-"+run.Source+"-"+run.Spec.Workload.Dataset)
		conclude(run, verdict.Evidence{})
	}
	return runs, err
}

// conclude says what a run's summary is worth.
func conclude(run *probes.Run, evidence verdict.Evidence) {
	run.Validity = verdict.Validity(run, evidence)
	run.Verdict = verdict.Judge(&run.Spec, &run.Summary, run.Validity)
	run.Traps = verdict.Traps(run)
	run.Result = resultOf(run)
}
