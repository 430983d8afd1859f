package backend

// vLLM's OpenAI routes.
var (
	vllmText = dialect{
		path: completionsPath, port: 8000, modelsPath: modelsPath, flushPath: "/reset_prefix_cache", profile: vllmProfile, tokenize: textWays,
		tokenIDs: true, lengthField: "max_tokens", exact: ignoreEOS, runningUsage: true,
		body: completionsBody, lora: loraModel, parse: parseOpenAI,
	}
	vllmChat = dialect{
		path: chatPath, messages: true, images: true, port: 8000, modelsPath: modelsPath, flushPath: "/reset_prefix_cache", profile: vllmProfile, tokenize: chatWays,
		lengthField: "max_completion_tokens", exact: ignoreEOS, runningUsage: true,
		body: chatBody, lora: loraModel, parse: parseOpenAI,
	}
)
