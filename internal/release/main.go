// Command release writes files about the modules in a released binary: their licences, and a
// list of the modules in SPDX 2.3.
//
//	go run ./internal/release DIRECTORY BINARY
//
// It reads the build information of the binary and the licences in the module cache, and writes
// NOTICES.txt and experiment.spdx.json into the directory. The output for a binary is always
// the same.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "release: it takes a directory and a binary")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(dir, binary string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	modules := modulesIn(info)
	notices, err := noticesOf(modules)
	if err != nil {
		return err
	}
	list, err := json.MarshalIndent(spdxDocument(info, modules, fmt.Sprintf("%x", sha256.Sum256(content))), "", "  ")
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "NOTICES.txt"), notices, 0o644),
		os.WriteFile(filepath.Join(dir, "experiment.spdx.json"), append(list, '\n'), 0o644))
}

// modulesIn returns the modules in the binary, except the main module, sorted by path.
func modulesIn(info *debug.BuildInfo) []*debug.Module {
	modules := slices.Clone(info.Deps)
	for i, m := range modules {
		modules[i] = cmp.Or(m.Replace, m)
	}
	slices.SortFunc(modules, func(a, b *debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	return modules
}

var licence = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|copyright)([-.].*)?$`)

// noticesOf concatenates the licences and notices of Go and of the modules.
func noticesOf(modules []*debug.Module) ([]byte, error) {
	root, err := goOutput("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	notices, err := noticesIn("Go, its standard library and runtime", root)
	for _, m := range modules {
		dir, failed := goOutput("list", "-m", "-f", "{{.Dir}}", m.Path)
		if failed != nil {
			return nil, failed
		}
		own, failed := noticesIn(m.Path+" "+m.Version, dir)
		notices, err = append(notices, own...), errors.Join(err, failed)
	}
	return notices, err
}

// noticesIn concatenates the licences and notices in a folder. It is an error if there are
// none.
func noticesIn(name, dir string) (notices []byte, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() || !licence.MatchString(entry.Name()) {
			continue
		}
		text, failed := os.ReadFile(filepath.Join(dir, entry.Name()))
		notices = fmt.Appendf(notices, "%s\n%s, %s\n\n%s\n\n", strings.Repeat("=", 78), name, entry.Name(), bytes.TrimSpace(text))
		err = errors.Join(err, failed)
	}
	if err == nil && len(notices) == 0 {
		err = fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return notices, err
}

func goOutput(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

type object = map[string]any

// spdxDocument returns an SPDX document with the program and the modules that it contains.
func spdxDocument(info *debug.BuildInfo, modules []*debug.Module, sum string) object {
	made := time.Unix(0, 0).UTC().Format(time.RFC3339)
	revision := "unknown"
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.time":
			made = setting.Value
		case "vcs.revision":
			revision = setting.Value
		}
	}
	packageOf := func(id, path, version string) object {
		return object{"SPDXID": id, "name": path, "versionInfo": version, "downloadLocation": "NOASSERTION",
			"filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}
	}
	program := packageOf("SPDXRef-Program", info.Path, revision)
	program["primaryPackagePurpose"] = "APPLICATION"
	program["checksums"] = []object{{"algorithm": "SHA256", "checksumValue": sum}}
	packages := []object{program}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Program"}}
	for i, m := range append([]*debug.Module{{Path: "std", Version: info.GoVersion}}, modules...) {
		id := fmt.Sprintf("SPDXRef-Module-%d", i)
		one := packageOf(id, m.Path, m.Version)
		one["externalRefs"] = []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
			"referenceLocator": "pkg:golang/" + m.Path + "@" + m.Version}}
		packages = append(packages, one)
		relations = append(relations, object{"spdxElementId": "SPDXRef-Program", "relationshipType": "CONTAINS", "relatedSpdxElement": id})
	}
	return object{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": filepath.Base(info.Path),
		"documentNamespace": "https://spdx.org/spdxdocs/experiment-" + sum,
		"creationInfo":      object{"created": made, "creators": []string{"Tool: internal/release"}},
		"packages":          packages, "relationships": relations}
}
