package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// stage is one entry of a pipeline in a tokenizer.json, with the fields of all kinds
// that this package knows.
type stage struct {
	Type string `json:"type"`

	// Sequence
	Normalizers   []stage `json:"normalizers"`
	Pretokenizers []stage `json:"pretokenizers"`
	Processors    []stage `json:"processors"`
	Decoders      []stage `json:"decoders"`

	// ByteLevel, Metaspace
	AddPrefixSpace *bool   `json:"add_prefix_space"`
	UseRegex       *bool   `json:"use_regex"`
	Replacement    string  `json:"replacement"`
	PrependScheme  *string `json:"prepend_scheme"`
	Split          *bool   `json:"split"`

	// Split, Replace, Punctuation, CharDelimiterSplit, Digits
	Pattern    *pattern        `json:"pattern"`
	Behavior   string          `json:"behavior"`
	Invert     bool            `json:"invert"`
	Delimiter  string          `json:"delimiter"`
	Individual bool            `json:"individual_digits"`
	Content    string          `json:"content"`
	Prepend    string          `json:"prepend"`
	StripLeft  bool            `json:"strip_left"`
	StripRight bool            `json:"strip_right"`
	Charsmap   json.RawMessage `json:"precompiled_charsmap"`

	// BertNormalizer
	CleanText    bool  `json:"clean_text"`
	ChineseChars bool  `json:"handle_chinese_chars"`
	StripAccents *bool `json:"strip_accents"`
	Lowercase    bool  `json:"lowercase"`

	// decoders
	Prefix  string `json:"prefix"`
	Suffix  string `json:"suffix"`
	Cleanup *bool  `json:"cleanup"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`

	// post-processors
	Single        []json.RawMessage          `json:"single"`
	SpecialTokens map[string]templateSpecial `json:"special_tokens"`
	Sep           json.RawMessage            `json:"sep"`
	Cls           json.RawMessage            `json:"cls"`
}

// pattern is a text or a regular expression.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

type templateSpecial struct {
	IDs []int `json:"ids"`
}

// modelFile is the model of a tokenizer.json. Vocab is an object of ids, or a list of
// pieces with their scores.
type modelFile struct {
	Type                    string          `json:"type"`
	Vocab                   json.RawMessage `json:"vocab"`
	Merges                  json.RawMessage `json:"merges"`
	UnkToken                *string         `json:"unk_token"`
	UnkID                   *int            `json:"unk_id"`
	FuseUnk                 bool            `json:"fuse_unk"`
	ByteFallback            bool            `json:"byte_fallback"`
	IgnoreMerges            bool            `json:"ignore_merges"`
	ContinuingSubwordPrefix *string         `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string         `json:"end_of_word_suffix"`
	MaxInputCharsPerWord    int             `json:"max_input_chars_per_word"`
}

type tokenizerFile struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *stage       `json:"normalizer"`
	PreTokenizer  *stage       `json:"pre_tokenizer"`
	Model         modelFile    `json:"model"`
	PostProcessor *stage       `json:"post_processor"`
	Decoder       *stage       `json:"decoder"`
}

// model turns one piece of text into ids. pieces is how ids look in the file; a nil
// text piece has none.
type model interface {
	// encode appends the ids of a piece to dst. s is scratch of the call.
	encode(dst []int, piece string, s *scratch) ([]int, error)
	// vocabulary is the piece of each id.
	vocabulary() map[string]int
}

// pipeline is a coder that follows a tokenizer.json.
type pipeline struct {
	// raw are the added tokens that are looked for in the text as it is, normal
	// those that are looked for after normalization.
	raw, normal *matcher
	normalize   normalizer // nil: none
	split       splitter   // nil: none
	model       model
	decoder     decoder
	pieces      []string // by id, added tokens included
	known       []bool   // which ids there are
	special     map[int]bool
	scratches   scratchPool
}

// parse reads a tokenizer.json.
func parse(text []byte) (*Tokenizer, error) {
	var f tokenizerFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	p := &pipeline{special: map[int]bool{}}
	var err error
	if p.normalize, err = newNormalizer(f.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	// A byte-level cut at the end of the pre-tokenizer writes bytes as letters, which
	// the vocabulary undoes as well when it is read.
	bytewise := f.Model.Type == "BPE" && endsBytewise(f.PreTokenizer) &&
		empty(f.Model.ContinuingSubwordPrefix) && empty(f.Model.EndOfWordSuffix)
	if p.split, err = newSplitter(f.PreTokenizer, bytewise); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if p.model, err = newModel(&f.Model, bytewise); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if p.decoder, err = newDecoder(f.Decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	p.name(f.AddedTokens)
	if err := p.match(f.AddedTokens); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	t := &Tokenizer{coder: p, hash: hashOf(text)}
	if t.prefix, t.suffix, err = around(f.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	return t, nil
}

func empty(s *string) bool { return s == nil || *s == "" }

// name fills in what each id is called.
func (p *pipeline) name(added []addedToken) {
	set := func(id int, piece string) {
		if id >= len(p.pieces) {
			p.pieces = append(p.pieces, make([]string, id+1-len(p.pieces))...)
			p.known = append(p.known, make([]bool, id+1-len(p.known))...)
		}
		p.pieces[id], p.known[id] = piece, true
	}
	for piece, id := range p.model.vocabulary() {
		set(id, piece)
	}
	for _, a := range added {
		set(a.ID, a.Content)
		if a.Special {
			p.special[a.ID] = true
		}
	}
}

// match prepares the search for added tokens.
func (p *pipeline) match(added []addedToken) error {
	var raw, normal []addedToken
	for _, a := range added {
		if a.Content == "" {
			continue
		}
		if !a.Normalized {
			raw = append(raw, a)
			continue
		}
		if p.normalize != nil {
			a.Content = p.normalize(a.Content)
		}
		if a.Content != "" {
			normal = append(normal, a)
		}
	}
	p.raw, p.normal = newMatcher(raw), newMatcher(normal)
	return nil
}

// encode follows the stages.
func (p *pipeline) encode(dst []int, text string) (ids []int, err error) {
	s := p.scratches.get()
	defer p.scratches.put(s)
	ids = dst
	piece := func(piece string, _ bool) error {
		if piece == "" {
			return nil
		}
		ids, err = p.model.encode(ids, piece, s)
		return err
	}
	token := func(id int) { ids = append(ids, id) }
	words := func(part string, first bool) error {
		if p.split == nil {
			return piece(part, first)
		}
		return p.split.split(part, first, piece)
	}
	err = p.raw.each(text, true, token, func(part string, first bool) error {
		if p.normalize != nil {
			part = p.normalize(part)
		}
		return p.normal.each(part, first, token, words)
	})
	return ids, err
}

// decode joins the pieces of ids by the decoder.
func (p *pipeline) decode(ids []int) (string, error) {
	pieces := make([]string, 0, len(ids))
	for _, id := range ids {
		if id < 0 || id >= len(p.pieces) || !p.known[id] {
			return "", fmt.Errorf("id %d is not in the vocabulary", id)
		}
		if !p.special[id] {
			pieces = append(pieces, p.pieces[id])
		}
	}
	return p.decoder(pieces), nil
}

// endsBytewise reports whether the last pre-tokenizer is ByteLevel.
func endsBytewise(s *stage) bool {
	switch {
	case s == nil:
		return false
	case s.Type == "Sequence":
		return len(s.Pretokenizers) > 0 && endsBytewise(&s.Pretokenizers[len(s.Pretokenizers)-1])
	}
	return s.Type == "ByteLevel"
}

func newModel(m *modelFile, bytewise bool) (model, error) {
	switch m.Type {
	case "BPE", "":
		return newBPE(m, bytewise)
	case "Unigram":
		return newUnigram(m)
	case "WordPiece":
		return newWordPiece(m)
	case "WordLevel":
		return newWordLevel(m)
	}
	return nil, fmt.Errorf("unknown type %q, known are BPE, Unigram, WordPiece and WordLevel", m.Type)
}

// around gives the special tokens that a post-processor puts before and after a text.
func around(s *stage) (prefix, suffix []int, err error) {
	if s == nil {
		return nil, nil, nil
	}
	switch s.Type {
	case "ByteLevel":
		return nil, nil, nil
	case "TemplateProcessing":
		return aroundTemplate(s)
	case "BertProcessing", "RobertaProcessing":
		cls, err := specialPair(s.Cls)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: cls: %w", s.Type, err)
		}
		sep, err := specialPair(s.Sep)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: sep: %w", s.Type, err)
		}
		return []int{cls}, []int{sep}, nil
	case "Sequence":
		for i := range s.Processors {
			before, after, err := around(&s.Processors[i])
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = slices.Concat(before, prefix), append(suffix, after...)
		}
		return prefix, suffix, nil
	}
	return nil, nil, fmt.Errorf("unknown type %q", s.Type)
}

func aroundTemplate(s *stage) (prefix, suffix []int, err error) {
	seen := false
	for _, raw := range s.Single {
		var part struct {
			SpecialToken *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
			Sequence *struct {
				ID string `json:"id"`
			} `json:"Sequence"`
		}
		if err := json.Unmarshal(raw, &part); err != nil {
			return nil, nil, fmt.Errorf("type TemplateProcessing: %w", err)
		}
		switch {
		case part.Sequence != nil && !seen:
			seen = true
		case part.SpecialToken != nil:
			token, ok := s.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("type TemplateProcessing: special token %q has no ids", part.SpecialToken.ID)
			}
			if seen {
				suffix = append(suffix, token.IDs...)
			} else {
				prefix = append(prefix, token.IDs...)
			}
		default:
			return nil, nil, fmt.Errorf("type TemplateProcessing: cannot read %s", raw)
		}
	}
	if !seen {
		return nil, nil, fmt.Errorf("type TemplateProcessing: the template of a single text does not hold the text")
	}
	return prefix, suffix, nil
}

// specialPair reads ["[CLS]", 101].
func specialPair(raw json.RawMessage) (int, error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil {
		return 0, err
	}
	if len(pair) != 2 {
		return 0, fmt.Errorf("%s is not a token and its id", raw)
	}
	var id int
	err := json.Unmarshal(pair[1], &id)
	return id, err
}
