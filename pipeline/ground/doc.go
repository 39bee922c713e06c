// Package ground finds what an extractor quotes in the document that it was
// given, and says which names do not occur there.
//
// It does not decide whether a statement is supported by the document, only
// whether words stand in it, and where. All offsets that leave the package
// count code points of the original text, and every Span quotes exactly what
// stands there; Offsets converts to bytes and UTF-16.
//
// The steps are
//
//  1. NewIndex reads a document once;
//  2. Index.Locate finds a quote exactly, else tolerantly: white space, case,
//     Unicode compatibility forms, kinds of quotation marks and dashes,
//     invisible characters and hyphenation at line ends do not matter;
//  3. Ground does so for all mentions of an extraction, and looks for the names
//     of what has none.
//
// For example:
//
//	span, match := ground.Locate("She joined Acme\nCorp.", "acme corp", 0)
//	// span is {"Acme\nCorp", 11, 20}, match is ground.Tolerant
package ground
