package probes

// Definitions is whose definitions of the latencies a record follows. The others'
// change only what those tools define differently, so that a number can be laid
// beside one that they measured; our own are better wherever the two differ.
type Definitions string

const (
	OwnDefinitions Definitions = ""
	// SGLangDefinitions are those of SGLang's bench_serving: E2E runs to the last line
	// of the stream, the usage chunk and [DONE] included; TPOT is (E2E - TTFT)/(N - 1);
	// ITL is per token on the native dialect and per chunk on the others; every request
	// has a connection of its own, whose set-up is part of TTFT.
	SGLangDefinitions Definitions = "sglang"
	// VLLMDefinitions are those of `vllm bench serve`: the first and the last token are
	// the first and the last message with a choice in it, the role chunk and empty text
	// included; TPOT is (E2E - TTFT)/(N - 1); ITL is the gap between such messages,
	// however many tokens they hold.
	VLLMDefinitions Definitions = "vllm"
)

// OtherDefinitions is the closed list of the other tools' ones.
var OtherDefinitions = []Definitions{SGLangDefinitions, VLLMDefinitions}
