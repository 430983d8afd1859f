package alerts

import "strings"

// process are the labels that say where a daemon runs. An alert about a target must
// not have them, or a restart of the pod would resolve it and fire another one.
const process = "instance, pod, node"

// sel is a selector of a metric's series.
func sel(metric string, matchers ...string) string {
	if len(matchers) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(matchers, ", ") + "}"
}

// highest and lowest take the daemons that watch the same thing together. Results and
// ages take the highest, so that the worse view counts; failures the lowest, because
// what only one prober sees is not the target's fault.
func highest(metric string, matchers ...string) string {
	return "max without (" + process + ") (" + sel(metric, matchers...) + ")"
}

func lowest(metric string, matchers ...string) string {
	return "min without (" + process + ") (" + sel(metric, matchers...) + ")"
}

// lines sets parts below each other: operands and the operators between them.
func lines(parts ...string) string { return strings.Join(parts, "\n") }

// group sets an expression in parentheses.
func group(parts ...string) string {
	return "(\n  " + strings.ReplaceAll(lines(parts...), "\n", "\n  ") + "\n)"
}
