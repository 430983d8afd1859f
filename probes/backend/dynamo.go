package backend

// dynamo is the chat route of a Dynamo front end. Annotations and errors come as
// named events whose text is a comment, with or without data.
var dynamo = dialect{
	path: chatPath, messages: true, images: true, port: 8000, modelsPath: modelsPath, tokenize: chatWays,
	tokenIDs: true, lengthField: "max_completion_tokens", exact: ignoreEOS,
	body: dynamoBody, lora: loraModel, parse: parseOpenAI,
}

// dynamoBody sends ids in the extension that replaces the front end's tokenizer; the
// message must be there all the same, and is not read.
func dynamoBody(d *dialect, q question) map[string]any {
	fields := chatBody(d, q)
	if q.TokenIDs != nil {
		fields["nvext"] = map[string]any{"token_data": q.TokenIDs}
	}
	return fields
}
