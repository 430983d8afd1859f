package backend

// The OpenAI routes of trtllm-serve. As everywhere the plain name is completions,
// the default of TensorRT-LLM's own benchmark script.
var (
	trtllmText = dialect{
		path: completionsPath, port: 8000, modelsPath: modelsPath, tokenize: textWays,
		tokenIDs: true, lengthField: "max_tokens", exact: ignoreEOS, runningUsage: true,
		body: completionsBody, lora: loraModel, parse: parseOpenAI,
	}
	trtllmChat = dialect{
		path: chatPath, messages: true, images: true, port: 8000, modelsPath: modelsPath, tokenize: chatWays,
		lengthField: "max_completion_tokens", exact: ignoreEOS, runningUsage: true,
		body: chatBody, lora: loraModel, parse: parseOpenAI,
	}
)
