"""Items from FOLDER/*.txt, with gold in FOLDER/*.json or in rows document,name,type of FOLDER/gold.csv."""
import csv
import json
import pathlib
import sys

schemas = {"Person": {"description": "a person"}, "City": {"description": "a town or city"}}  # what to look for
folder = pathlib.Path(sys.argv[1])
rows = {}
if (folder / "gold.csv").exists():
    with open(folder / "gold.csv", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["document"], []).append({"name": row["name"], "type": row["type"]})
for text in sorted(folder.glob("*.txt")):
    gold = text.with_suffix(".json")
    expected = json.loads(gold.read_text("utf-8")) if gold.exists() else {"entities": rows.get(text.stem, [])}
    print(json.dumps({"id": text.stem, "expectedOutput": expected,
                      "input": {"document_text": text.read_text("utf-8"), "object_schemas": schemas}}))
