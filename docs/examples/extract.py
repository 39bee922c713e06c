"""A pipeline for --pipeline: capitalised words become entities of the first type."""
import json
import re
import sys


def extract(request):
    kinds = request["allowed_types"] or sorted(request["object_schemas"]) or ["Thing"]
    names = dict.fromkeys(re.findall(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*", request["document_text"]))
    return {"entities": [{"name": n, "type": kinds[0]} for n in names], "relationships": [], "calls": []}


sys.stdin.reconfigure(encoding="utf-8")
for line in sys.stdin:
    request = json.loads(line)
    try:
        result = extract(request)
    except Exception as e:  # this document fails, the others go on
        result = {"error": {"class": "provider", "message": f"{type(e).__name__}: {e}"}}
    print(json.dumps({"id": request["id"], **result}), flush=True)
