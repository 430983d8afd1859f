// Package tokenizer turns texts into token ids and back, as a model does, without
// a server.
//
// The story of the data:
//
//  1. [Open] reads a Hugging Face tokenizer.json (or the folder that holds it) or
//     takes the tables of a tiktoken encoding that are part of the binary. Nothing
//     is ever downloaded. What this package does not know about a file is an error
//     with its name: a tokenizer that is nearly right would count nearly right.
//  2. A text passes the stages of the file: added tokens are cut out, the rest is
//     normalized, cut into pieces, and each piece becomes ids by the model (BPE,
//     Unigram, WordPiece, WordLevel). The post-processor's special tokens go around
//     them where a request would have them.
//  3. [Tokenizer.Count] counts a text alone, without those: what an answer has.
//  4. [Tokenizer.Template] is the chat template that lies beside the file, and
//     renders the one user message that a prompt is.
//
// Ids are those of the Python packages tokenizers and tiktoken; Unicode tables are
// those of Go, so characters that one of the two does not know yet may be cut
// differently.
package tokenizer
