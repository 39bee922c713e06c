// Command producers rebuilds the PDF files that the tests of pdftext read: the
// pages of content.json through LaTeX, LibreOffice, Chromium, fpdf and gopdf. A
// producer that is not on the machine is skipped and named. With an argument it
// makes only the producer of that name.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "producers:", err)
		os.Exit(1)
	}
}

func run(only []string) error {
	dir := filepath.Join("internal", "pdftext", "testdata", "producers")
	pages, err := readContent(filepath.Join(dir, "content.json"))
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	work, err := os.MkdirTemp("", "producers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, p := range []struct {
		name  string
		build func([]page, string) ([]byte, error)
	}{
		{"latex", latex}, {"libreoffice", libreoffice}, {"chromium", chromium}, {"fpdf", withFpdf}, {"gopdf", withGopdf},
	} {
		if len(only) > 0 && only[0] != p.name {
			continue
		}
		data, err := p.build(pages, work)
		if err != nil {
			fmt.Printf("%s: skipped: %v\n", p.name, err)
			continue
		}
		path := filepath.Join(dir, p.name+".pdf")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", path, len(data))
	}
	return nil
}

// tool runs a program on a file in the work folder and returns what it wrote.
func tool(work, input, text, output string, command ...string) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(work, input), []byte(text), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %.500s", err, out)
	}
	return os.ReadFile(filepath.Join(work, output))
}

func latex(pages []page, work string) ([]byte, error) {
	return tool(work, "latex.tex", tex(pages), "latex.pdf", "pdflatex", "-interaction=batchmode", "latex.tex")
}

func libreoffice(pages []page, work string) ([]byte, error) {
	return tool(work, "libreoffice.html", web(pages, false), "libreoffice.pdf",
		"soffice", "--headless", "-env:UserInstallation=file://"+work+"/profile", "--infilter=HTML (StarWriter)", "--convert-to", "pdf:writer_pdf_Export", "libreoffice.html")
}

func chromium(pages []page, work string) ([]byte, error) {
	return tool(work, "chromium.html", web(pages, true), "chromium.pdf",
		"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", "--print-to-pdf=chromium.pdf", "chromium.html")
}
