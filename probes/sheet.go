package probes

// Sheet lays the runs of several sides beside each other, the first of which is the
// reference. It says what was found and what it is worth, for people.
type Sheet struct {
	Sides []Side
	Rows  []SheetRow
	// Controls are the controlled variables that are not known to be equal on all
	// sides, and Equal those that are.
	Controls, Equal []SheetControl
	// Unverified are the important ones that no side tells.
	Unverified []string
	// Reading is what the numbers say, a sentence each.
	Reading []string
	// Traps are the self-deceptions that a reader could fall for, and Doubts what makes
	// runs suspect or left them out.
	Traps, Doubts []SheetNote
}

// Side is one of the things that are compared: runs that were to be equal.
type Side struct {
	Name string
	// Runs can be believed; Left is how many could not, and are left out.
	Runs []*Run
	Left int
}

// SheetRow is one number of all sides.
type SheetRow struct {
	Name  string // as in a metric or a JSON line: ttft_p50
	Label string // for people: TTFT p50
	Unit  string // of values times Scale; empty for a plain number
	Scale float64
	Key   bool // it belongs into a summary of few numbers
	Cells []SheetCell
}

// SheetCell is the number of one side. N = 0 means that no run has it.
type SheetCell struct {
	N                int
	Median, Min, Max float64
	Values           []Optional[float64] // of each run of the side
	// Against lays the side beside the reference; nil for the reference itself, and
	// where one of both has no value. Its bounds are known from four runs a side on.
	Against *Judgement
}

// SheetControl is a controlled variable with its value on each side; empty is not
// known.
type SheetControl struct {
	Variable string
	Values   []string
}

// SheetNote is a reason with the sides that it holds for.
type SheetNote struct {
	Reason
	Sides []string
}
