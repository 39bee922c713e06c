"""Items from FOLDER/*.txt, with gold in FOLDER/*.json or in rows document,name,type of FOLDER/gold.csv."""
import csv
import json
import pathlib
import sys

schemas = {"Person": {"description": "a person"}, "City": {"description": "a town or city"}}  # what to look for
folder = pathlib.Path(sys.argv[1])
texts, table, rows = sorted(folder.glob("*.txt")), folder / "gold.csv", {}
if table.exists():
    with open(table, encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["document"], []).append({"name": row["name"], "type": row["type"]})
if unknown := rows.keys() - {text.stem for text in texts}:
    sys.exit(f"gold.csv: a document is the name of a text without .txt, and there are no texts {sorted(unknown)}")
for text in texts:
    gold = text.with_suffix(".json")
    expected = {"entities": rows.get(text.stem, [])} if table.exists() else None  # None: not annotated
    if gold.exists():
        expected = json.loads(gold.read_text("utf-8"))
    print(json.dumps({"id": text.stem, "expectedOutput": expected,
                      "input": {"document_text": text.read_text("utf-8"), "object_schemas": schemas}}))
