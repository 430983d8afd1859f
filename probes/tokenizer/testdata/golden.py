"""Writes the tokenizers and expectations beside this file.

    pip install tokenizers==0.23.3 jinja2==3.1.6 tiktoken==0.14.0
    python golden.py

Every tokenizer is trained on the few sentences below, so that its file stays small.
"""
import json, os, random
from tokenizers import Tokenizer, Regex, AddedToken, models, normalizers, pre_tokenizers, decoders, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's a dog's life, isn't it? We'll see what they've done.",
    "A benchmark measures how long a server takes until the first token arrives, and how long every token after it takes.",
    "for (int i = 0; i < 100; i++) {\n    printf(\"%d\\n\", i);\n}\n",
    "def main(argv):\n\tif len(argv) != 2:\n\t\traise SystemExit(\"usage: main FILE\")\n\treturn 0\n",
    "Zahlen wie 12345 und 3,14 stehen in Tabellen; Übergrößen kosten 20 % mehr. Straße, Füße, ÄÖÜ.",
    "Le café où l'été naît déjà. El niño comió piñas en el jardín. São Paulo não é a capital.",
    "今天天气很好，我们去公园散步吧。数据中心的推理服务需要监控。", "東京は日本の首都です。カタカナとひらがな。",
    "Привет, мир! Сегодня хорошая погода. Ελληνικά γράμματα, σοφός.", "مرحبا بالعالم. שלום עולם.", "नमस्ते दुनिया। हिन्दी में लिखा।",
    "😀 👍🏽 👩‍👩‍👧 🇩🇪 emoji are long sequences of bytes 🚀🚀", "https://example.com/a/b?c=d&e=f#g user@example.org C:\\path\\file.txt",
    "SELECT name, count(*) FROM users WHERE id >= 42 GROUP BY name;", "x = [1, 2, 3]; y = {'a': 1}; z = x[0] + y['a']",
] * 3

# Plain words, so many that whole prompts can be made of them.
WORDS = """a and the with from able time people water house light night music paper river road stone table voice world year young garden letter
market master matter money month morning mother mountain nature number office ocean open page""".split()
mix = random.Random(3)
CORPUS += [" ".join(mix.choice(WORDS) for _ in range(8)) for _ in range(600)]

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "Hello, world!", "The quick brown fox", "It's we'll THEY'VE I'M 's 'S don't",
    "a" + " " * 15 + "b", "   leading", "trailing   ", "tabs\t\tand\nlines\r\n\r\n  mixed \n ", "\n", "\n\n\n x", " \n \n",
    "1 12 123 1234 12345 123456789 3.14 1e10 ٣٤٥ ½ Ⅷ", "naïve café Ångström ﬁ ﬀ ① ㍿ Å e\u0301",
    "今天天气很好 mixed 中文 and English，标点。", "カタカナ ﾊﾝｶｸ ひらがな", "Привет мир ΣΟΦΟΣ σοφός İstanbul ıI ẞß",
    "😀👍🏽👩‍👩‍👧🇩🇪 ☃ 🫠", "zero\u200bwidth \u00a0nbsp\u3000wide \u2028sep \ufeffbom", "for (int i=0;i<10;++i){a[i]+=b[i];}",
    "def f(x):\n    return x**2  # comment\n\n\n", "<s>hello</s> <s> </s><s>", "<|begin|>system<|end|>\n\n<|begin|>user <|end|> x",
    "[CLS] a [SEP] b[MASK] c [MASK]d", "supercalifragilisticexpialidocious " * 4, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x" * 101 + " y", "▁under ▁▁ _score", "\u0000null\u0007bell", "e\u0301\u0302 combining \u0915\u094d\u0937", "---===+++///\\\\\\|||", "!!!???...,,,;;;",
    "𝕳𝖊𝖑𝖑𝖔 𐍈 \U0002070e", "HTTPServer camelCase snake_case SCREAMING_CASE iPhone15Pro", " \u3000 \u00a0 ", "ſ 'ſ K K'",
    "control \u0085 format \u00ad private \ue000 not assigned \U0001d4a8 \u0378",
    "mot<extra_0>mot <extra_0> <extra_0>", "unk ☃☃☃ snow ☃", "ab<|pad|>  cd  <|pad|>ef",
]

def fuzz(n, seed):
    r = random.Random(seed)
    parts = ["the", " dog", "'ll", "'S", " ", "  ", "\n", "\t", "\r\n", "é", "e\u0301", "中", "文", "😀", "\u200d", "1", "23", "4567", "_", "-", "!", "?!",
             "<s>", "</s>", "<|begin|>", "Ü", "ß", "я", "ʼ", "\u00a0", "\u3000", "▁", "##", "[SEP]", "☃", "x", "Q", "٣", "नि", "<|pad|>", "<extra_0>", ".", ","]
    return ["".join(r.choice(parts) for _ in range(r.randint(1, 24))) for _ in range(n)]

ALL = TEXTS + fuzz(60, 1)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = [f"<0x{i:02X}>" for i in range(256)]
alphabet = pre_tokenizers.ByteLevel.alphabet

def bpe(size=700, **kw): return trainers.BpeTrainer(vocab_size=size, show_progress=False, **kw)

def make():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "gpt2", t, bpe(initial_alphabet=alphabet(), special_tokens=["<|endoftext|>"]), [], {}

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    yield "llama3", t, bpe(800, initial_alphabet=alphabet(), special_tokens=["<|begin|>", "<|end|>", "<|pad|>"]), [], {
        "model": {"ignore_merges": True}, "template": ("<|begin|> $A", ["<|begin|>"])}

    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    yield "qwen", t, bpe(initial_alphabet=alphabet()), [AddedToken("<|begin|>", special=True, normalized=False), AddedToken("<|pad|>", lstrip=True, rstrip=True, special=True, normalized=False),
        AddedToken("<extra_0>", normalized=True, single_word=True)], {}

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(O200K), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    yield "o200k", t, bpe(initial_alphabet=alphabet()), [], {}

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), pre_tokenizers.Split(Regex("[一-龥\u3040-ゟ゠-ヿ]+"), "isolated"),
        pre_tokenizers.Split(Regex(DEEPSEEK), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    yield "deepseek", t, bpe(initial_alphabet=alphabet(), special_tokens=["<s>"]), [], {"template": ("<s> $A", ["<s>"])}

    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t2 = pre_tokenizers.Metaspace(prepend_scheme="never")
    yield "llama2", t, bpe(900, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=70), [], {
        "train_split": t2, "drop_added": BYTES, "template": ("<s> $A", ["<s>"])}

    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "gemma", t, bpe(900, special_tokens=["<unk>", "<s>", "</s>", "<|pad|>"] + BYTES, limit_alphabet=90), [AddedToken("▁▁▁", normalized=False), AddedToken("\n\n", normalized=False)], {
        "train_split": pre_tokenizers.Metaspace(prepend_scheme="never"), "drop_added": BYTES, "template": ("<s> $A", ["<s>"])}

    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    yield "clip", t, bpe(special_tokens=["<unk>", "<s>", "</s>"], end_of_word_suffix="</w>", limit_alphabet=80), [], {"roberta": True}

    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    yield "t5", t, trainers.UnigramTrainer(vocab_size=560, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False, max_piece_length=12), [AddedToken("<extra_0>", special=True)], {
        "template": ("$A </s>", ["</s>"])}

    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    yield "unigram-bytes", t, trainers.UnigramTrainer(vocab_size=560, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, max_piece_length=12), [], {
        "train_split": pre_tokenizers.Metaspace(), "unigram_bytes": True, "template": ("<s> $A </s>", ["<s>", "</s>"])}

    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    yield "bert", t, trainers.WordPieceTrainer(vocab_size=650, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False, limit_alphabet=100), [
        AddedToken("[MASK]", lstrip=True, special=True)], {"template": ("[CLS] $A [SEP]", ["[CLS]", "[SEP]"])}

    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    yield "words", t, trainers.WordLevelTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False), [], {}

def finish(t, extra, how):
    """Edits what the trainers cannot make."""
    t.add_tokens(extra)
    d = json.loads(t.to_str())
    d["model"].update(how.get("model", {}))
    if drop := set(how.get("drop_added", [])):
        d["added_tokens"] = [a for a in d["added_tokens"] if a["content"] not in drop]
    if d["model"]["type"] == "Unigram":  # with so little text the trainer keeps no whole words
        known = {piece for piece, _ in d["model"]["vocab"]}
        d["model"]["vocab"] += [["▁" + w, -6.5 - i / 32] for i, w in enumerate(WORDS) if "▁" + w not in known]
    if how.get("unigram_bytes"):
        d["model"]["vocab"] += [[b, 0.0] for b in BYTES]
        d["model"]["byte_fallback"] = True
    t = Tokenizer.from_str(json.dumps(d))
    if "template" in how:
        single, special = how["template"]
        t.post_processor = processors.TemplateProcessing(single=single, pair=None, special_tokens=[(s, t.token_to_id(s)) for s in special])
    if how.get("roberta"):
        t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t

def write(path, value):
    path = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        if isinstance(value, str): f.write(value)
        else: json.dump(value, f, ensure_ascii=False, separators=(",", ":"))

def tokenizers():
    golden = {}
    for name, t, trainer, extra, how in make():
        own = t.pre_tokenizer
        if "train_split" in how: t.pre_tokenizer = how["train_split"]
        t.train_from_iterator(CORPUS, trainer)
        if "train_split" in how:
            if own is None:
                d = json.loads(t.to_str()); d["pre_tokenizer"] = None; t = Tokenizer.from_str(json.dumps(d))
            else: t.pre_tokenizer = own
        t = finish(t, extra, how)
        write(f"{name}/tokenizer.json", t.to_str())
        rows = []
        for text in ALL:
            ids = t.encode(text, add_special_tokens=False).ids
            rows.append({"ids": ids, "decoded": t.decode(ids)})
        r = random.Random(7)
        noise = [[r.randrange(t.get_vocab_size()) for _ in range(12)] for _ in range(20)]
        golden[name] = {"rows": rows, "around": t.encode("dog").ids, "dog": t.encode("dog", add_special_tokens=False).ids,
                        "noise": [{"ids": n, "decoded": t.decode(n)} for n in noise]}
    write("golden.json", {"texts": ALL, "tokenizers": golden})

def stages():
    P, N = pre_tokenizers, normalizers
    cuts = [P.Split(p, b, invert=i) for p in (Regex(r"\s+"), Regex("[aeiou]"), " ") for b in ("removed", "isolated", "contiguous", "merged_with_previous", "merged_with_next") for i in (False, True)]
    cuts += [P.Whitespace(), P.WhitespaceSplit(), P.BertPreTokenizer(), P.Punctuation(), P.Punctuation("merged_with_previous"), P.Punctuation("contiguous"), P.Digits(), P.Digits(True),
             P.CharDelimiterSplit("o"), P.ByteLevel(), P.ByteLevel(add_prefix_space=False), P.ByteLevel(use_regex=False), P.Metaspace(), P.Metaspace(prepend_scheme="never"),
             P.Metaspace(prepend_scheme="first", split=False), P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="first")]), P.Sequence([P.Punctuation(), P.ByteLevel()])]
    norms = [N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.StripAccents(), N.Sequence([N.NFD(), N.StripAccents()]), N.Strip(), N.Strip(left=False), N.Strip(right=False),
             N.Prepend("▁"), N.Replace("o", "00"), N.Replace(Regex("[0-9]+"), "#"), N.BertNormalizer(), N.BertNormalizer(lowercase=False), N.BertNormalizer(strip_accents=False, clean_text=False, handle_chinese_chars=False), N.ByteLevel()]
    kind = lambda s: json.loads(s.__getstate__())
    write("stages.json", {
        "pre_tokenizers": [{"stage": kind(c), "pieces": [[p for p, _ in c.pre_tokenize_str(t)] if t else [] for t in TEXTS]} for c in cuts],
        "normalizers": [{"stage": kind(n), "out": [n.normalize_str(t) for t in TEXTS]} for n in norms],
        "texts": TEXTS})

if __name__ == "__main__":
    tokenizers()
    stages()
