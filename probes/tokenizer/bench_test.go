package tokenizer

import (
	"strings"
	"testing"
)

// BenchmarkEncode shows the speed of each type, in tokens a second.
func BenchmarkEncode(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog; it's 12345 times faster than a café's naïve waiter.\n"+
		"for (int i = 0; i < 100; i++) { total += values[i]; }\n今天天气很好，我们去公园散步吧。 😀\n\n", 20)
	for _, name := range []string{"gpt2", "llama3", "qwen", "o200k", "llama2", "gemma", "t5", "unigram-bytes", "bert",
		TiktokenPrefix + "cl100k_base", TiktokenPrefix + "o200k_base"} {
		b.Run(name, func(b *testing.B) {
			var tok *Tokenizer
			var err error
			if strings.HasPrefix(name, TiktokenPrefix) {
				tok, err = Open(name)
			} else {
				tok = open(b, name)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			tokens := 0
			for b.Loop() {
				n, err := tok.Count(text)
				if err != nil {
					b.Fatal(err)
				}
				tokens += n
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
