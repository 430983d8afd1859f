package probes

// Values of [Workload.Tokenizer] that name no tokenizer of our own.
const (
	TokenizerServer = "server" // the target's own /tokenize
	TokenizerApprox = "approx" // none: lengths are estimates
)

// TiktokenPrefix stands before the name of a tiktoken encoding in
// [Workload.Tokenizer]; what else names a tokenizer of our own is a file's path.
const TiktokenPrefix = "tiktoken:"

// LocalTokenizer reports whether texts are tokenized in this process.
func (w *Workload) LocalTokenizer() bool {
	return w.Tokenizer != "" && w.Tokenizer != TokenizerServer && w.Tokenizer != TokenizerApprox
}
