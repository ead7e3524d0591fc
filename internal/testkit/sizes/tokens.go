package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// testKits are the folders with code only for tests. A new folder must be added here.
var testKits = []string{"convert/internal/converttest", "internal/testkit", "viewer/web/test"}

var (
	// notOurs are folders without code, or with code that nobody wrote.
	notOurs = regexp.MustCompile(`^(\.git|bin|viewer/dist|examples/fleet)$|(^|/)(node_modules|testdata)$`)
	isData  = regexp.MustCompile(`^[^.].*/.*\.(txt|json|ya?ml|tmpl|csv|html)$`)
	isOther = regexp.MustCompile(`\.(tsx?|m?js|css)$`)
	// otherToken matches a comment or a token of TypeScript, JavaScript or CSS. The content of a template literal
	// counts as code.
	otherToken = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\pL_$][\w$]*|[0-9][\w.]*|=>|[-+*/%&|^!=<>?]=?=?|\S`)
)

// dataToken is the number of bytes of a data file that count as one token.
const dataToken = 4

// texts measures the files of all folders below root. It includes the files for other systems.
func texts(root string) (map[string]*row, error) {
	rows := make(map[string]*row)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if notOurs.MatchString(name) {
				return filepath.SkipDir
			}
			return nil
		}
		counts, isDocument := columnOf(name), path.Ext(name) == ".md"
		if counts == "" && !isDocument {
			return nil
		}
		src, err := os.ReadFile(name) //nolint:gosec // it is our own tree
		if err != nil {
			return err
		}
		r := rows[path.Dir(name)]
		if r == nil {
			r = new(row)
			rows[path.Dir(name)] = r
		}
		if counts == "" {
			*r.at("wording") += odds(string(src))
			return nil
		}
		n, wording := look(name, src)
		if *r.at(counts) += n; counts == "code" {
			*r.at("wording") += wording
			*r.at("file") = max(*r.at("file"), n)
		}
		return nil
	})
	return rows, err
}

// columnOf returns the column that counts the tokens of a file, or "" if no column counts them.
func columnOf(name string) string {
	switch {
	case strings.HasPrefix(name, "docs/"), path.Base(name) == "package-lock.json", name == file:
		return ""
	case path.Ext(name) != ".go" && !isOther.MatchString(name) && !isData.MatchString(name):
		return ""
	case strings.HasSuffix(name, "_test.go"), strings.Contains(name, ".test."),
		slices.ContainsFunc(testKits, func(kit string) bool { return strings.HasPrefix(name, kit+"/") }):
		return "tests"
	}
	return "code"
}

// odd matches sentences that must be read twice.
var odd = regexp.MustCompile(`\b[Aa]n? \w+ is what\b|\bis wanted\b|\b[Tt]here (is|are)\b[^.]*\bthat\b|, to` + `o\b`)

func odds(text string) int {
	return len(odd.FindAllString(strings.Join(strings.Fields(text), " "), -1))
}

// look counts the tokens of a file, and the matches of odd in its comments and strings. A generated file counts as
// empty.
func look(name string, src []byte) (tokens, wording int) {
	var comment strings.Builder // consecutive comments are read as one
	token := func(text string) {
		tokens++
		wording += odds(comment.String()) + odds(text)
		comment.Reset()
	}
	switch {
	case bytes.HasPrefix(src, []byte("// Code generated")):
		return 0, 0
	case path.Ext(name) == ".go":
		lookGo(src, &comment, token)
	case isOther.MatchString(name):
		for _, b := range otherToken.FindAll(src, -1) {
			if text := string(b); strings.HasPrefix(text, "//") || strings.HasPrefix(text, "/*") {
				comment.WriteString(" " + strings.TrimPrefix(text, "//"))
			} else {
				token("")
			}
		}
	default:
		return (len(src) + dataToken - 1) / dataToken, 0
	}
	return tokens, wording + odds(comment.String())
}

// lookGo calls fn for each token, with the text of the token if it is a string. Comments and implicit semicolons
// are not tokens. It adds the text of comments to comment.
func lookGo(src []byte, comment *strings.Builder, fn func(text string)) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(src)), src, nil, scanner.ScanComments)
	for {
		switch _, tok, lit := s.Scan(); {
		case tok == token.EOF:
			return
		case tok == token.COMMENT:
			comment.WriteString(" " + strings.TrimPrefix(lit, "//"))
		case tok == token.STRING:
			fn(lit)
		case tok != token.SEMICOLON || lit != "\n":
			fn("")
		}
	}
}
