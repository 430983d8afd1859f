package tokenizer

import (
	"strings"
	"testing"
)

// TestLongRuns: an answer that repeats itself is counted in the time of any other, and
// no pattern gives up on it.
func TestLongRuns(t *testing.T) {
	const n = 40_000
	for _, name := range []string{"testdata/llama3", "testdata/deepseek", "testdata/llama2", "testdata/t5", "testdata/unigram-bytes", "testdata/bert", "tiktoken:o200k_base"} {
		t.Run(name, func(t *testing.T) {
			tok, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, unit := range []string{" ", "\n", "a", "1", "-", " \n", "é", "a "} {
				text := "x" + strings.Repeat(unit, n/len(unit)) + "x"
				count, err := tok.Count(text)
				if err != nil || count < 2 && name != "testdata/bert" || count > 2*len(text) {
					t.Errorf("Count(x, %d times %q, x) = %d, %v", n/len(unit), unit, count, err)
				}
			}
		})
	}
}
