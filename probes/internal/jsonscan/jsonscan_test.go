package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
)

var texts = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `-1.5e+10`, `1E5`, `""`, `"a\u00e9\n"`, ` { "a" : [ 1 , 2 ] } `,
	`{"a":{"b":[{"c":null}]}}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83d\ud83d\ude00"`, "\"\xf0\x9f\"", `"\/\"\\"`,
	`{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `NaN`, `{"v":NaN}`, `Infinity`, `-`, `01`, `1.`, `.5`, `1e`, `+1`,
	`"`, `"\`, `"\x"`, `"\u12"`, `"\u12G4"`, "\"\n\"", "\"a\tb\"", `{"a":1`, `[1`, `[1}`, `{"a":1]`, `1 2`, ``, ` `, `tru`, `nul`, `truex`, `[[]]]`,
	`{"":""}`, `[1 2]`, `{"a":1 "b":2}`, `{"a" 1}`, "\xef\xbb\xbf{}", `"1234567"`, `"12345678"`, "\"1234567\x01\"", `"1234567\n90"`, "\"é234567\x1f\"",
	strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 30),
}

func TestValidAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("Valid(%.60q) = %v, want %v", text, got, want)
		}
	}
}

func TestAppendUnquotedAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		checkUnquote(t, []byte(text))
	}
}

func checkUnquote(t *testing.T, text []byte) {
	t.Helper()
	var want string
	if json.Unmarshal(text, &want) != nil || !strings.Contains(string(text), `"`) {
		return
	}
	var s Scanner
	s.Reset(text)
	raw, ok := s.String()
	if !ok || s.End() != nil {
		t.Fatalf("String(%q) found no string", text)
	}
	if got := string(AppendUnquoted(nil, raw)); got != want {
		t.Errorf("AppendUnquoted(%q) = %q, want %q", raw, got, want)
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Errorf("Valid(%q) = %v, want %v", text, got, want)
		}
		checkUnquote(t, text)
	})
}

func TestInt(t *testing.T) {
	tests := []struct {
		text string
		want int
		ok   bool
	}{
		{"0", 0, true}, {"128", 128, true}, {"128.0", 128, true}, {"1.28e2", 128, true}, {"-3", -3, true},
		{"999999999999999999", 999999999999999999, true},
		{"1.5", 0, false}, {"1e300", 0, false}, {"1e999", 0, false}, {`"7"`, 0, false}, {"null", 0, false}, {"[7]", 0, false}, {"true", 0, false},
	}
	for _, test := range tests {
		var s Scanner
		s.Reset([]byte(test.text))
		got, ok := s.Int()
		if got != test.want || ok != test.ok {
			t.Errorf("Int(%s) = %d, %v, want %d, %v", test.text, got, ok, test.want, test.ok)
		}
		if err := s.End(); err != nil {
			t.Errorf("Int(%s) left the scanner with %v", test.text, err)
		}
	}
}

func TestFloat(t *testing.T) {
	tests := []struct {
		text string
		want float64
		ok   bool
	}{{"2.5", 2.5, true}, {"3", 3, true}, {"1e999", 0, false}, {`"2"`, 0, false}}
	for _, test := range tests {
		var s Scanner
		s.Reset([]byte(test.text))
		got, ok := s.Float()
		if ok != test.ok || ok && got != test.want {
			t.Errorf("Float(%s) = %v, %v, want %v, %v", test.text, got, ok, test.want, test.ok)
		}
	}
}

func TestWalk(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`{"skip":[1,{"x":"}"}],"te\u0078t":"a\nb","n":[1,2,3],"wrong":"string","none":null}`))
	var text string
	var sum int
	if !s.Object() {
		t.Fatal("Object() = false")
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "text":
			raw, _ := s.String()
			text = string(AppendUnquoted(nil, raw))
		case "n":
			for ok := s.Array(); ok && s.Element(); {
				n, _ := s.Int()
				sum += n
			}
		case "wrong", "none":
			if s.Object() {
				t.Errorf("Object() entered %s", key)
			}
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil {
		t.Fatalf("End() = %v", err)
	}
	if text != "a\nb" || sum != 6 {
		t.Errorf("walk found %q and %d, want %q and 6", text, sum, "a\nb")
	}
}

func TestWalkOfCutTextEnds(t *testing.T) {
	whole := []byte(`{"a":[{"b":"c\u0041"},[1.5e3,true]],"d":null}`)
	for n := range whole {
		var s Scanner
		s.Reset(whole[:n])
		if s.Object() {
			for _, ok := s.Key(); ok; _, ok = s.Key() {
				s.Skip()
			}
		}
		if s.End() == nil {
			t.Errorf("End() = nil after %q", whole[:n])
		}
	}
}

func BenchmarkValid(b *testing.B) {
	chunk := []byte(`{"id":"chatcmpl-a1","object":"chat.completion.chunk","created":1767225600,"model":"demo-8b","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":16,"total_tokens":17,"completion_tokens":1}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if !Valid(chunk) {
			b.Fatal("not valid")
		}
	}
}
