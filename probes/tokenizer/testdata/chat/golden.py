"""Renders the templates beside this file as transformers does: python golden.py (needs jinja2==3.1.6)."""
import json, os
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.exceptions import TemplateError

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["Hi", "", "  two words \n", "x = {{ 1 }} {% if a %}<|end|>", 'quotes " and \\ and é 中 😀', "<think>no</think> tail"]

def raise_exception(message): raise TemplateError(message)

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda format: "no dates in goldens"

out = {}
for file in sorted(os.listdir(HERE)):
    if not file.endswith(".jinja"): continue
    template = env.from_string(open(os.path.join(HERE, file), encoding="utf-8").read())
    rows = []
    for text in TEXTS:
        try:
            rows.append({"out": template.render(messages=[{"role": "user", "content": text}], tools=None, documents=None, add_generation_prompt=True, bos_token="<|begin|>", eos_token="<|end|>")})
        except TemplateError as e:
            rows.append({"error": str(e)})
    out[file.removesuffix(".jinja")] = rows
with open(os.path.join(HERE, "golden.json"), "w", encoding="utf-8") as f:
    json.dump({"texts": TEXTS, "templates": out}, f, ensure_ascii=False, indent=1)
