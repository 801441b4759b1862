package annotation

// Explain returns everything about one option, as text for a terminal.
func Explain(o Option) string { return "" }

// ExplainAll returns one line for each option, as text for a terminal.
func ExplainAll() string { return "" }

// Markdown returns the page about all options.
func Markdown() string { return "" }

// ProviderTable returns a short Markdown table of which option works with
// which provider.
func ProviderTable() string { return "" }
