package backend

// LMDeploy's OpenAI routes. It knows no running usage, and in completions a list of
// numbers is a list of prompts, so ids go by the chat route alone.
var (
	lmdeployText = dialect{
		path: completionsPath, port: 23333, modelsPath: modelsPath, tokenize: encodeWays,
		lengthField: "max_completion_tokens", exact: ignoreEOS,
		body: completionsBody, lora: loraModel, parse: parseOpenAI,
	}
	lmdeployChat = dialect{
		path: chatPath, messages: true, images: true, port: 23333, modelsPath: modelsPath, tokenize: encodeChatWays,
		tokenIDs: true, lengthField: "max_completion_tokens", exact: ignoreEOS,
		body: lmdeployChatBody, lora: loraModel, parse: parseOpenAI,
	}
)

// lmdeployChatBody sends ids beside an empty list of messages; no template is
// applied to them.
func lmdeployChatBody(d *dialect, q question) map[string]any {
	fields := chatBody(d, q)
	if q.TokenIDs != nil {
		fields["messages"], fields["input_ids"] = []any{}, q.TokenIDs
	}
	return fields
}
