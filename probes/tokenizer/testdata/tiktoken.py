"""Writes tiktoken.json: python tiktoken.py FOLDER, which holds the published *.tiktoken files (needs tiktoken==0.14.0)."""
import json, os, sys
sys.path.pop(0)  # this file has the package's name
import tiktoken, tiktoken.load
from tiktoken_ext import openai_public

HERE = os.path.dirname(os.path.abspath(__file__))

def local(url, expected_hash=None):
    import base64
    lines = open(os.path.join(sys.argv[1], url.rsplit("/", 1)[1]), "rb").read().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}

openai_public.load_tiktoken_bpe = local
texts = json.load(open(os.path.join(HERE, "golden.json"), encoding="utf-8"))["texts"]
out = {}
for name in ("cl100k_base", "o200k_base", "p50k_base", "p50k_edit", "r50k_base"):
    encoding = tiktoken.Encoding(**getattr(openai_public, name)())
    out[name] = [encoding.encode_ordinary(t) for t in texts]
    assert all(encoding.decode(ids) == t for ids, t in zip(out[name], texts))
json.dump(out, open(os.path.join(HERE, "tiktoken.json"), "w"), separators=(",", ":"))
