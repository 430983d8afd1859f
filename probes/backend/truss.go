package backend

// truss is a model behind Baseten's Truss server, asked as bench_serving asks it.
// What comes back is up to the user's own model code: the stream of a completions
// route is expected, usage is not. A hosted model has a path of its own, and takes a
// key as "Authorization: Api-Key …", which is given as a header.
var truss = dialect{
	path: "/v1/models/model:predict", port: 8080, lengthField: "max_tokens", exact: ignoreEOS,
	body: trussBody, lora: loraModel, parse: parseOpenAI,
}

// trussBody leaves out stream_options: model code that hands the body on to an
// engine field by field fails on it.
func trussBody(d *dialect, q question) map[string]any {
	fields := completionsBody(d, q)
	delete(fields, "stream_options")
	return fields
}
