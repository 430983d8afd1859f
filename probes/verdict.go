package probes

// Reason is a closed code, which may be a label, and a sentence for people.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// ValidityState says whether a measurement can be believed.
type ValidityState string

const (
	Valid   ValidityState = "valid"
	Suspect ValidityState = "suspect" // shown and exported, marked
	Invalid ValidityState = "invalid" // never moves a result, an SLO or a baseline
)

// Validity is the state with its reasons; Valid has none.
type Validity struct {
	State   ValidityState `json:"state"`
	Reasons []Reason      `json:"reasons,omitempty"`
}

// VerdictState says whether the promises were kept.
type VerdictState string

const (
	Pass VerdictState = "pass"
	Warn VerdictState = "warn"
	Fail VerdictState = "fail"
	// Unknown: the number cannot be trusted, or there is none.
	Unknown VerdictState = "unknown"
)

// Verdict is the state with its reasons.
type Verdict struct {
	State   VerdictState `json:"state"`
	Reasons []Reason     `json:"reasons,omitempty"`
}
