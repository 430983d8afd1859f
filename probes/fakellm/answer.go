package fakellm

import "strings"

// answerWords is what answers are made of: plain ASCII (no JSON escapes), at most
// 8 letters each, so that tokenizing an answer again counts its tokens right.
const answerWords = `the of and to in is that it was for on are as with his they at be this from
have or by one had not but what all were when we there can an your which their said if do will each about how up out
them then she many some so these would other into has more her two like him see time could no make than first been its
who now people my made over did down only way find use may water long little very after words called just where most
know get through back much before go good new write our used me man too any day same right look think also around
another came come work three word must because does part even place well such here take why things help put years
different away again off went old number great tell men say small every found still between name should home big give
air line set own under read last never us left end along while might next sound below saw both few those always looked
show large often together asked house world going want school important until form food keep children feet land side`

// lexicon is the answer vocabulary with its ids.
type lexicon struct {
	words     []string // bare; an answer puts a space before all but its first
	bare      []int32  // id of "word"
	following []int32  // id of " word"
}

func newLexicon(t *tokenizer) *lexicon {
	l := &lexicon{}
	for _, w := range strings.Fields(answerWords) {
		if len(w) > maxPieceLetters {
			continue
		}
		l.words = append(l.words, w)
		l.bare = append(l.bare, t.id(w))
		l.following = append(l.following, t.id(" "+w))
	}
	return l
}

// answer is the token sequence of one reply; token i is a pure function of i.
type answer struct {
	lex  *lexicon
	seed uint64
	// length counts all tokens; the last is the end-of-sequence token when stops is set.
	length int
	stops  bool
	// reasoning tokens come first.
	reasoning int
}

func (a *answer) word(i int) string { return a.lex.words[a.index(i)] }

func (a *answer) index(i int) int { return int(mix(a.seed, uint64(i)) % uint64(len(a.lex.words))) }

// silent reports whether token i prints nothing.
func (a *answer) silent(i int) bool { return a.stops && i == a.length-1 }

// opens reports whether token i is the first of its channel, so that no space
// goes before it.
func (a *answer) opens(i int) bool { return i == 0 || i == a.reasoning }

func (a *answer) id(i int) int32 {
	switch {
	case a.silent(i):
		return tokenEOS
	case a.opens(i):
		return a.lex.bare[a.index(i)]
	}
	return a.lex.following[a.index(i)]
}

// appendText writes tokens [from, to) as text.
func (a *answer) appendText(dst []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		if a.silent(i) {
			continue
		}
		if !a.opens(i) {
			dst = append(dst, ' ')
		}
		dst = append(dst, a.word(i)...)
	}
	return dst
}

// finishReason is "stop" when the answer ended by itself, else "length".
func (a *answer) finishReason() string {
	if a.stops {
		return "stop"
	}
	return "length"
}
