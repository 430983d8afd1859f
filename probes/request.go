package probes

import "time"

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

// Message is one turn of a conversation.
type Message struct {
	Role    string // system, user, assistant or tool
	Content string
}

// Image is a picture as it is sent.
type Image struct {
	MediaType string // image/png, image/jpeg
	Base64    string // standard encoding, without a data: prefix
}

// DataURL is the image as a URL of itself.
func (i Image) DataURL() string { return "data:" + i.MediaType + ";base64," + i.Base64 }

// Request is one thing to ask.
type Request struct {
	// ID is unique over all runs; it is sent to the server.
	ID    string
	Index int
	// Prompt is the text to send; TokenIDs replaces it when not nil.
	Prompt   string
	TokenIDs []int
	// Messages, when not nil, are a conversation in place of Prompt. Only chat
	// backends can send one.
	Messages []Message
	// Images stand before the text of the prompt, or of the last user message.
	Images []Image

	// At is when a trace wants the request, counted from the trace's first one.
	At Optional[time.Duration]
	// Session names a conversation of a trace, empty for none: a turn is asked when
	// its time has come and the turn before it has been answered.
	Session string
	// Turn, counted from 1, and Turns number a session that is a real conversation: the
	// Messages of a later turn are the new ones alone, and whoever sends it puts the
	// earlier ones and their answers in front. 0 of 0 is a request that is whole as it
	// is. The answers are kept for that, as KeepText says.
	Turn, Turns int

	// InputTokens is the length of the prompt's text and InputSource how it is
	// known. What images add only the server can tell.
	InputTokens     int
	InputSource     TokenSource
	MaxOutputTokens int
	Sampling        Sampling
	KeepText        bool
	Definitions     Definitions
	Warmup          bool
}
