package probes

// TokenSource says where a token count comes from.
type TokenSource string

const (
	// TokensServer: the server reported it for this request.
	TokensServer TokenSource = "server"
	// TokensClient: one tokenisation of the text, without special tokens.
	TokensClient TokenSource = "client"
	// TokensApprox: estimated without a tokenizer.
	TokensApprox TokenSource = "approx"
)

// Request is one thing to ask.
type Request struct {
	// ID is unique over all runs; it is sent to the server.
	ID    string
	Index int
	// Prompt is the text to send; TokenIDs replaces it when not nil.
	Prompt   string
	TokenIDs []int

	// InputTokens is the prompt's length and InputSource how it is known.
	InputTokens     int
	InputSource     TokenSource
	MaxOutputTokens int
	Sampling        Sampling
	KeepText        bool
	Warmup          bool
}
