package fakellm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTokensOfAText(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one", []string{"one"}},
		{"one two", []string{"one", " two"}},
		{" one\n\n two  ", []string{" one", "\n\n two", "  "}},
		{"eightlet", []string{"eightlet"}},
		{"ninelette", []string{"ninelett", "e"}},
		{"a seventeenletters!", []string{"a", " seventee", "nletters", "!"}},
		{"größenwahn ☕", []string{"größenwa", "hn", " ☕"}},
		{"   ", []string{"   "}},
	} {
		var got []string
		for rest := tt.text; rest != ""; {
			n := pieceLength(rest)
			got = append(got, rest[:n])
			rest = rest[n:]
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
		if n := CountTokens(tt.text); n != len(tt.want) {
			t.Errorf("CountTokens(%q): got %d, want %d", tt.text, n, len(tt.want))
		}
	}
}

func TestTextSurvivesTokenizing(t *testing.T) {
	tok := newTokenizer()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		ids := tok.append(nil, text)
		if len(ids) != CountTokens(text) {
			t.Fatalf("got %d ids, want %d", len(ids), CountTokens(text))
		}
		var back strings.Builder
		for _, id := range ids {
			piece, ok := tok.text(int(id))
			if !ok {
				t.Fatalf("id %d is not in the vocabulary", id)
			}
			back.WriteString(piece)
		}
		if back.String() != text {
			t.Fatalf("got %q, want %q", back.String(), text)
		}
	})
}

// A benchmark may send any ids below the vocabulary's size: as text they must be
// as many tokens, and the same ones.
func TestRandomIDsSurviveAsText(t *testing.T) {
	tok := newTokenizer()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Int32Range(0, namedTokens-1), 1, 50).Draw(t, "ids")
		var text strings.Builder
		for _, id := range ids {
			piece, ok := tok.text(int(id))
			if !ok {
				t.Fatalf("id %d is not in the vocabulary", id)
			}
			text.WriteString(piece)
		}
		if diff := cmp.Diff(ids, tok.append(nil, text.String())); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text.String(), diff)
		}
	})
	if len(tok.pieces) != 0 {
		t.Errorf("the table grew by %d pieces, want 0", len(tok.pieces))
	}
}

func TestTheTableIsBounded(t *testing.T) {
	tok := newTokenizer()
	tok.limit = 100
	for i := range 1000 {
		tok.id(fmt.Sprintf(" %x", i))
	}
	if len(tok.pieces) != 100 || len(tok.ids) != 100 {
		t.Errorf("got %d pieces and %d ids, want 100", len(tok.pieces), len(tok.ids))
	}
	late := tok.id(" late")
	if _, ok := tok.text(int(late)); !ok || tok.id(" late") != late {
		t.Errorf("a late piece: got id %d, then %d", late, tok.id(" late"))
	}
}

func TestTokenizeRoutes(t *testing.T) {
	const bos = tokenBOS
	named := 12<<12 | 5<<6 | 63 // " gadezo"
	for _, tt := range []struct{ engine, path, body, want string }{
		{SGLang, "/tokenize", `{"prompt":" gadezo"}`, fmt.Sprintf(`{"count":2,"max_model_len":100,"tokens":[%d,%d]}`, bos, named)},
		{SGLang, "/v1/tokenize", `{"prompt":[" gadezo",""],"add_special_tokens":false}`, fmt.Sprintf(`{"count":[1,0],"max_model_len":100,"tokens":[[%d],[]]}`, named)},
		{VLLM, "/tokenize", `{"prompt":" gadezo","add_special_tokens":false,"return_token_strs":true}`, fmt.Sprintf(`{"count":1,"max_model_len":100,"token_strs":[" gadezo"],"tokens":[%d]}`, named)},
		{VLLM, "/tokenize", `{"model":"fake-8b","messages":[{"role":"user","content":" gadezo"}]}`,
			fmt.Sprintf(`{"count":6,"max_model_len":100,"token_strs":null,"tokens":[%d,%d,%d,%d,%d,%d]}`, bos, tokenUser, named, tokenEOS, tokenTurn, tokenReply)},
		{SGLang, "/detokenize", fmt.Sprintf(`{"tokens":[%d,%d]}`, bos, named), `{"text":" gadezo"}`},
		{SGLang, "/detokenize", fmt.Sprintf(`{"tokens":[[%d],[]]}`, named), `{"text":[" gadezo",""]}`},
		{VLLM, "/detokenize", fmt.Sprintf(`{"tokens":[%d]}`, named), `{"prompt":" gadezo"}`},
		{VLLM, "/detokenize", `{"tokens":[900000]}`, `{"error":{"message":"tokens[0]: token id 900000 is out of vocabulary","type":"BadRequestError","param":null,"code":400}}`},
		{VLLM, "/tokenize", `{"prompt":["a"]}`, `{"error":{"message":"prompt must be a string","type":"BadRequestError","param":null,"code":400}}`},
	} {
		c := exact()
		c.Engine, c.ContextLength = tt.engine, 100
		bubble(t, c, func(r *rig) {
			if got := r.post(tt.path, tt.body).raw; got != tt.want {
				t.Errorf("%s%s %s:\n got %s\nwant %s", tt.engine, tt.path, tt.body, got, tt.want)
			}
		})
	}
}

// What /tokenize counts is what a request is charged.
func TestTokenizeAgreesWithPromptTokens(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		for _, text := range []string{"x", words(40), "incomprehensibilities, again\n", "größenwahn ☕ "} {
			body, err := json.Marshal(map[string]any{"text": text, "sampling_params": map[string]any{"max_new_tokens": 1}, "stream": true})
			if err != nil {
				t.Fatal(err)
			}
			want := len(decodeIDs(t, r, text))
			if got := decodeLast(t, r.post("/generate", string(body))).Meta.PromptTokens; got != want || got != CountTokens(text)+1 {
				t.Errorf("%q: got %d prompt tokens, want %d", text, got, want)
			}
		}
	})
}
